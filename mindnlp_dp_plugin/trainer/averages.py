"""Other means than the one over ranks: what ``average_over`` asks for, between the Trainer's loss and its gradients."""

from collections.abc import Callable

import mindspore
from mindnlp.engine.utils import find_batch_size
from mindnlp.transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp import WeightedMean
from mindnlp_dp_plugin.distributed.gather import PADDING, to_numpy
from mindnlp_dp_plugin.errors import DataParallelError


def count_micro_step(model, inputs) -> int:
    """One: all micro-steps weigh alike."""
    return 1


def count_samples(model, inputs) -> int:
    """Rows of the batch.

    Raises:
        DataParallelError: If no column has any.
    """
    num_rows = find_batch_size(inputs)
    if num_rows is None:
        raise DataParallelError(
            f"average_over='samples' counts rows, but no column of the batch ({', '.join(inputs)}) has any. "
            "Choose average_over='ranks' or 'micro_steps'."
        )
    return num_rows


def count_tokens(model, inputs) -> int:
    """Labels a loss is a mean over: those that are not -100, and that a causal language model does not shift away.

    Raises:
        DataParallelError: If the batch has no column ``labels``.
    """
    if inputs.get("labels") is None:
        raise DataParallelError(
            "average_over='tokens' counts the labels that are not -100, but among the columns of the batch "
            f"({', '.join(inputs)}) is no 'labels'. Rename the one that holds them, or choose average_over='samples'."
        )
    labels = to_numpy(inputs["labels"])
    predictor = model.get_base_model() if hasattr(model, "get_base_model") else model  # an adapter is no model class
    if type(predictor).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values():
        labels = labels[..., 1:]
    return int((labels != PADDING).sum())


COUNTS = {"micro_steps": count_micro_step, "samples": count_samples, "tokens": count_tokens}


class CountedAverage:
    """Weighs the Trainer's losses by what ``average_over`` counts, while it trains.

    Args:
        trainer: The Trainer. Its ``compute_loss`` is weighed until ``close``.
        parameters: What the optimizer updates.
        collective: The ranks to average over.
        average_over: A key of ``COUNTS``.
    """

    def __init__(self, trainer, parameters, collective: Collective, average_over: str):
        self._trainer = trainer
        self._average_over = average_over
        self._accumulation = trainer.args.gradient_accumulation_steps
        self._mean = WeightedMean(parameters, collective, self._accumulation, average_over != "micro_steps")
        self._weight = None  # of the micro-step to come, until its backward is done
        self._compute_loss = trainer.compute_loss
        trainer.compute_loss = self._compute_weighted_loss  # on the instance, so that an overriding subclass is covered

    def take_in(self, inputs) -> None:
        """Before forward: count the batch."""
        self._weight = self._mean.weigh(COUNTS[self._average_over](self._trainer.model, inputs))

    def sum_counts(self) -> Callable[[], float]:
        """As ``WeightedMean.sum_counts``. To be called on all ranks."""
        return self._mean.sum_counts()

    def train(self, step: Callable, model):
        """Run a micro-step of the Trainer and return its loss, such that what the Trainer sums is the right mean.

        A batch that counts nothing is left out: the mean over it is 0 / 0.
        """
        weight = self._weight
        if weight:
            loss = step().astype(mindspore.float32).item() * self._accumulation / weight
        else:
            self._trainer.update_gradient_by_distributed_type(model)
            loss = 0.0
        return mindspore.tensor(self._mean.tell_loss(loss), mindspore.float32)

    def end_backward(self) -> None:
        """The weight is used up.

        Raises:
            DataParallelError: If there was none.
        """
        if self._weight is None:
            raise DataParallelError(
                f"average_over={self._average_over!r} has to see each batch: an overridden training_step must call "
                "super().training_step(model, inputs). Or choose average_over='ranks'."
            )
        self._weight = None

    def settle(self) -> None:
        """The gradients are averaged."""
        self._mean.settle()

    def reset(self) -> None:
        """The optimizer has stepped."""
        self._mean.reset()

    def close(self) -> None:
        """Leave the Trainer's loss as it was found."""
        self._trainer.compute_loss = self._compute_loss

    def _compute_weighted_loss(self, *args, **kwargs):
        result = self._compute_loss(*args, **kwargs)
        return result if self._weight is None else result * self._weight  # evaluation has no weight
