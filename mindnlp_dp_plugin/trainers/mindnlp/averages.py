"""The means that ``average_over`` chooses, applied between the Trainer's loss and its gradients."""

import mindspore
from mindnlp.engine.utils import find_batch_size
from mindnlp.transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp import WeightedMean
from mindnlp_dp_plugin.distributed.gather import PADDING, to_numpy
from mindnlp_dp_plugin.errors import DataParallelError


def count_micro_step(model, inputs) -> int:
    """1: all micro-steps have the same weight."""
    return 1


def count_samples(model, inputs) -> int:
    """Number of rows in the batch.

    Raises:
        DataParallelError: If no column has rows.
    """
    num_rows = find_batch_size(inputs)
    if num_rows is None:
        raise DataParallelError(
            "average_over='samples' counts rows, but no column of the batch ({columns}) has any. Choose "
            "average_over='ranks' or 'micro_steps'.",
            columns=", ".join(inputs),
        )
    return num_rows


def count_tokens(model, inputs) -> int:
    """Number of labels in the loss: those that are not -100 and that a causal language model does not shift away.

    Raises:
        DataParallelError: If the batch has no column ``labels``.
    """
    if inputs.get("labels") is None:
        raise DataParallelError(
            "average_over='tokens' counts the labels that are not -100, but among the columns of the batch ({columns}) "
            "is no 'labels'. Rename the one that holds them, or choose average_over='samples'.",
            columns=", ".join(inputs),
        )
    labels = to_numpy(inputs["labels"])
    predictor = model.get_base_model() if hasattr(model, "get_base_model") else model  # an adapter is no model class
    if type(predictor).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        labels = labels[..., 1:]
    return int((labels != PADDING).sum())


COUNTS = {"micro_steps": count_micro_step, "samples": count_samples, "tokens": count_tokens}


class CountedAverage:
    """Weights the Trainer's losses by what ``average_over`` counts.

    Args:
        trainer: The Trainer.
        parameters: The parameters the optimizer steps.
        collective: The ranks to average over.
        average_over: A key of ``COUNTS``.

    Attributes:
        weight: The factor for the loss of the next backward pass.
        mean: The mean it contributes to.
    """

    def __init__(self, trainer, parameters, collective: Collective, average_over: str):
        self._trainer = trainer
        self._average_over = average_over
        self._accumulation = trainer.args.gradient_accumulation_steps
        self.mean = WeightedMean(parameters, collective, self._accumulation, average_over != "micro_steps")
        self.weight = None
        self.begin_micro_step()

    def begin_micro_step(self) -> None:
        """A new batch follows."""
        self._count = None

    def take_in(self, inputs) -> None:
        """Count the batch. Call it before forward.

        Raises:
            DataParallelError: If it is the second batch of this micro-step and has another count than the first.
        """
        count = COUNTS[self._average_over](self._trainer.model, inputs)
        if self._count is None:
            self.weight = self.mean.weigh(count)
        elif count == self._count:
            self.weight = self.mean.weigh_again()
        else:
            raise DataParallelError(
                "average_over={average_over!r} counts {first} in the first batch of a training_step and {second} in "
                "the second: call super().training_step with parts of the same size, or choose average_over='ranks'.",
                average_over=self._average_over,
                first=self._count,
                second=count,
            )
        self._count = count

    def record(self, loss) -> mindspore.Tensor:
        """What the Trainer must add to its sum of losses for a weighted batch."""
        unweighed = loss.astype(mindspore.float32).item() * self._accumulation / self.weight
        return mindspore.tensor(self.mean.record_loss(unweighed), mindspore.float32)

    def record_nothing(self) -> mindspore.Tensor:
        """The same for a batch whose count is 0."""
        return mindspore.tensor(self.mean.record_loss(0.0), mindspore.float32)

    def require_counted(self) -> None:
        """Raise unless this micro-step's batch was counted."""
        if self._count is None:
            raise DataParallelError(
                "average_over={average_over!r} has to see each batch: an overridden training_step must call "
                "super().training_step(model, inputs). Or choose average_over='ranks'.",
                average_over=self._average_over,
            )
