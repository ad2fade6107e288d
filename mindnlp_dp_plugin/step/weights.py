"""What a micro-step's loss weighs in the mean of a step: the same for all, or what ``average_over`` counts."""

from collections.abc import Callable, Mapping

import mindspore

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.compat import has_mindnlp05
from mindnlp_dp_plugin.ddp import WeightedMean
from mindnlp_dp_plugin.distributed.gather import PADDING, to_numpy
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.trainers.port import Door


def count_micro_step(batch, predicts_next_token: bool) -> int:
    """1: all micro-steps have the same weight."""
    return 1


def count_samples(batch, predicts_next_token: bool = False) -> int:
    """Number of rows in the batch.

    Raises:
        DataParallelError: If no column has rows.
    """
    num_rows = _num_rows(batch)
    if num_rows is None:
        raise DataParallelError(
            "average_over='samples' counts rows, but no column of the batch ({columns}) has any. Choose "
            "average_over='ranks' or 'micro_steps'.",
            columns=", ".join(batch),
        )
    return num_rows


def count_tokens(batch, predicts_next_token: bool = False) -> int:
    """Number of labels in the loss: those that are not -100 and that a causal language model does not shift away.

    Args:
        batch: The columns, by name.
        predicts_next_token: Whether the model is one.

    Raises:
        DataParallelError: If the batch has no column ``labels``.
    """
    if batch.get("labels") is None:
        raise DataParallelError(
            "average_over='tokens' counts the labels that are not -100, but among the columns of the batch ({columns}) "
            "is no 'labels'. Rename the one that holds them, or choose average_over='samples'.",
            columns=", ".join(batch),
        )
    labels = to_numpy(batch["labels"])
    return int(((labels[..., 1:] if predicts_next_token else labels) != PADDING).sum())


def predicts_next_token(model) -> bool:
    """Whether a model, or the one that an adapter is put on, is a causal language model."""
    if has_mindnlp05():
        from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    else:
        from mindnlp.transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    predictor = model.get_base_model() if hasattr(model, "get_base_model") else model  # an adapter is no model class
    return type(predictor).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()


COUNTS = {"micro_steps": count_micro_step, "samples": count_samples, "tokens": count_tokens}


class EqualWeights:
    """All micro-steps weigh the same, which is 1 but for a run that goes on with another split of its global batch.

    Args:
        door: The loop.
    """

    of_sum = None

    def __init__(self, door: Door):
        self._before, self._now = door.nominal_accumulation, door.accumulation
        self._weight = self._before / self._now

    def follow(self, parameters) -> None:
        """Nothing depends on the parameters."""

    def begin_micro_step(self) -> None:
        """Nothing depends on the batch before."""

    def reset(self) -> None:
        """Nothing depends on the step before."""

    def weigh(self, batch) -> float:
        """The factor for the loss of a batch."""
        return self._weight

    def saw(self, loss) -> None:
        """Nothing depends on the loss."""

    def factor_of_rank(self) -> None:
        """Gradients of all ranks count the same."""

    def recorded(self, loss):
        """What the loop is to add to its sum of losses."""
        return loss

    def require(self, is_weighed: bool) -> None:
        """Raise if a loss that has a weight was not multiplied by it."""
        if self._weight != 1 and not is_weighed:
            raise DataParallelError(
                "Training began with gradient_accumulation_steps={before}, whose gradients are summed, and went on "
                "with {now}. So losses are weighted: an overridden training_step must call "
                "super().training_step(model, inputs). Or take the old accumulation.",
                before=self._before,
                now=self._now,
            )


class CountedWeights:
    """A micro-step weighs what ``average_over`` counts in its batch.

    Args:
        door: The loop.
        parameters: The parameters the optimizer steps.
        collective: The ranks to average over.
        average_over: A key of ``COUNTS``.
    """

    of_sum = None

    def __init__(self, door: Door, parameters, collective: Collective, average_over: str):
        self._door = door
        self._average_over = average_over
        self._accumulation = door.accumulation
        self._mean = WeightedMean(parameters, collective, self._accumulation, average_over != "micro_steps")
        self.reset = self._mean.reset
        self.begin_micro_step()

    def follow(self, parameters) -> None:
        """From now on these parameters accumulate gradients."""
        self._mean.parameters = list(parameters)

    def begin_micro_step(self) -> None:
        """A new batch follows."""
        self._count = None

    def weigh(self, batch) -> float:
        """The factor for the loss of a batch: 0 if it counts nothing. Call it before forward.

        Raises:
            DataParallelError: If it is the second batch of this micro-step and has another count than the first.
        """
        count = COUNTS[self._average_over](batch, self._door.predicts_next_token)
        first, self._count = self._count, count
        if first is None:
            return self._mean.weigh(count)
        if count == first:
            return self._mean.weigh_again()
        raise DataParallelError(
            "average_over={average_over!r} counts {first} in the first batch of a training_step and {second} in "
            "the second: call super().training_step with parts of the same size, or choose average_over='ranks'.",
            average_over=self._average_over,
            first=first,
            second=count,
        )

    def saw(self, loss) -> None:
        """Nothing depends on the loss."""

    def factor_of_rank(self) -> Callable[[], float]:
        """Start to sum what all ranks count. Returns a function that waits, and tells what this rank's gradients weigh.

        All ranks must call it, in the micro-step that averages.
        """
        return self._mean.sum_counts()

    def recorded(self, loss) -> mindspore.Tensor:
        """What the loop is to add to its sum of losses, so that the sums' mean is the weighted mean.

        Args:
            loss: The batch's mean loss over the accumulation; None for a batch that counts nothing.
        """
        mean = 0.0 if loss is None else loss.astype(mindspore.float32).item() * self._accumulation
        return mindspore.tensor(self._mean.record_loss(mean), mindspore.float32)

    def require(self, is_weighed: bool) -> None:
        """Raise unless this micro-step's batch was counted."""
        if self._count is None:
            raise DataParallelError(
                "average_over={average_over!r} has to see each batch: an overridden training_step must call "
                "super().training_step(model, inputs). Or choose average_over='ranks'.",
                average_over=self._average_over,
            )


def _num_rows(columns):
    """The length of the first tensor or array that has rows, however deep it lies; None without one."""
    if isinstance(columns, (list, tuple, Mapping)):
        inner = columns.values() if isinstance(columns, Mapping) else columns
        return next((rows for rows in map(_num_rows, inner) if rows is not None), None)
    shape = getattr(columns, "shape", ())
    return shape[0] if len(shape) else None
