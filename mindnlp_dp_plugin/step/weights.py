"""What a micro-step's loss weighs in the mean of a step: the same for all, or what ``average_over`` counts."""

from collections.abc import Callable, Mapping, Sequence

import mindspore

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp import WeightedMean
from mindnlp_dp_plugin.distributed.gather import to_numpy
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.port import Announced, Door
from mindnlp_dp_plugin.step.labels import LABELS, count_kept


def count_micro_step(batch, leaves_out: str | None = None, labels: str = LABELS) -> int:
    """1: all micro-steps have the same weight."""
    return 1


def count_samples(batch, leaves_out: str | None = None, labels: str = LABELS) -> int:
    """Number of rows in the batch.

    Raises:
        DataParallelError: If no column has rows.
    """
    num_rows = num_rows_of(batch)
    if num_rows is None:
        raise DataParallelError(
            "average_over='samples' counts rows, but no column of the batch ({columns}) has any. Choose "
            "average_over='ranks' or 'micro_steps'.",
            columns=", ".join(batch),
        )
    return num_rows


def count_tokens(batch, leaves_out: str | None = None, labels: str = LABELS) -> int:
    """Number of labels in the loss: those that are not -100 and that the model does not leave out.

    Args:
        batch: The columns, by name.
        leaves_out: Which others the loss leaves out.
        labels: The column of labels.

    Raises:
        DataParallelError: If the batch has no such column.
    """
    if batch.get(labels) is None:
        raise DataParallelError(
            "average_over='tokens' counts the labels that are not -100, but the batch ({columns}) has no column "
            "{labels!r}. Rename the one that holds them, or choose average_over='samples'.",
            columns=", ".join(batch),
            labels=labels,
        )
    return count_kept(to_numpy(batch[labels]), leaves_out, batch.get("attention_mask"))


COUNTS = {"micro_steps": count_micro_step, "samples": count_samples, "tokens": count_tokens}


def counted(batch, average_over: str, door: Door) -> int:
    """What a batch of a loop counts, by a key of ``COUNTS``."""
    return COUNTS[average_over](batch, door.leaves_out, door.labels)


class Weights:
    """What a step asks about its micro-steps; of itself, nothing depends on batches, losses or parameters.

    In a micro-step: ``begin_micro_step``, ``weigh``, forward, ``factor``, backward, ``recorded``, ``require``.

    Attributes:
        of_sum: What the sum of gradients is multiplied by; None for 1.
        looks_ahead: Whether counts of a step's batches travel together, which are read before the first is computed.
        is_repeated: Whether another rank has the batch of this micro-step, too, and here it counts nothing.
        adds_up: Whether the factors of all ranks' losses add up to the number of ranks, and gradients get no other.
    """

    of_sum = None
    looks_ahead = False
    is_repeated = False
    adds_up = True

    def __init__(self, collective: Collective):
        self._collective = collective

    @property
    def share(self) -> float:
        """What this rank's gradients weigh in the sum over ranks, if no weight of a loss is in them."""
        return 1 / self._collective.world_size

    def follow(self, parameters) -> None:
        """From now on these parameters accumulate gradients."""

    def reset(self) -> None:
        """Begin another step."""

    def announce(self, batches: Sequence[Announced]) -> None:
        """These batches follow: they are those of the next micro-steps."""

    def expects(self, batch: Mapping) -> bool:
        """Whether a batch was announced as the next."""
        return False

    def to_send(self) -> list[int]:
        """Numbers of this rank to sum over the ranks before the next backward; as many on all ranks."""
        return []

    def hear(self, totals: Sequence[int]) -> None:
        """What was sent, summed."""

    def begin_micro_step(self) -> None:
        """A new batch follows."""

    def weigh(self, batch) -> bool:
        """Count a batch, before forward. False if it counts nothing, and is left out."""
        return True

    def saw(self, loss) -> None:
        """The loss of the batch is computed."""

    def factor(self) -> float:
        """The factor of the loss, behind forward."""
        return 1.0

    def factor_of_rank(self) -> Callable[[], float] | None:
        """Start to sum what all ranks count. Returns a function that waits, and tells what this rank's gradients weigh.

        All ranks must call it, in the micro-step that averages. None if all ranks' gradients count the same.
        """

    def recorded(self, loss):
        """What the loop is to add to its sum of losses: None stands for a batch that counts nothing."""
        return loss

    def require(self, is_weighed: bool) -> None:
        """Raise if this micro-step's gradients did not get the weight that they need."""


class EqualWeights(Weights):
    """All micro-steps weigh the same, which is 1 but for a run that goes on with another split of its global batch.

    Args:
        door: The loop.
        collective: The ranks to average over.
    """

    def __init__(self, door: Door, collective: Collective):
        super().__init__(collective)
        self._before, self._now = door.nominal_accumulation, door.accumulation

    def factor(self):
        """What a micro-step weighs."""
        return self._before / self._now

    def require(self, is_weighed):
        """Raise if a loss that has a weight was not multiplied by it."""
        if self.factor() != 1 and not is_weighed:
            raise DataParallelError(
                "Training began with gradient_accumulation_steps={before}, whose gradients are summed, and went on "
                "with {now}. So losses are weighted: an overridden training_step must call "
                "super().training_step(model, inputs). Or use the old accumulation.",
                before=self._before,
                now=self._now,
            )


class CountedWeights(Weights):
    """A micro-step weighs what ``average_over`` counts in its batch.

    Args:
        door: The loop.
        parameters: The parameters the optimizer steps.
        collective: The ranks to average over.
        average_over: A key of ``COUNTS``.
    """

    adds_up = False

    def __init__(self, door: Door, parameters, collective: Collective, average_over: str):
        super().__init__(collective)
        self._door = door
        self._average_over = average_over
        self._accumulation = door.accumulation
        self._mean = WeightedMean(parameters, collective, self._accumulation, average_over != "micro_steps")
        self.reset = self._mean.reset
        self.begin_micro_step()

    def follow(self, parameters):
        """From now on these parameters accumulate gradients."""
        self._mean.parameters = list(parameters)

    def announce(self, batches):
        """A batch that another rank has counts nothing."""
        (batch,) = batches
        self.is_repeated = batch.is_repeated and self._average_over != "micro_steps"

    def begin_micro_step(self):
        """A new batch follows."""
        self._count = None

    def weigh(self, batch):
        """Count a batch.

        Raises:
            DataParallelError: If it is the second batch of this micro-step and has another count than the first.
        """
        count = 0 if self.is_repeated else counted(batch, self._average_over, self._door)
        first, self._count = self._count, count
        if first not in (None, count):
            raise DataParallelError(
                "average_over={average_over!r} counts {first} in the first batch of a training_step and {second} in "
                "the second: call super().training_step with parts of the same size, or choose average_over='ranks'.",
                average_over=self._average_over,
                first=first,
                second=count,
            )
        self._factor = self._mean.weigh(count) if first is None else self._mean.weigh_again()
        return bool(self._factor)

    def factor(self):
        """What the batch weighs among those that accumulate on this rank."""
        return self._factor

    def factor_of_rank(self):
        """Sum the counts."""
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


def num_rows_of(columns) -> int | None:
    """The length of the first tensor or array that has rows, however deep it lies; None without one."""
    if isinstance(columns, (list, tuple, Mapping)):
        inner = columns.values() if isinstance(columns, Mapping) else columns
        return next((rows for rows in map(num_rows_of, inner) if rows is not None), None)
    shape = getattr(columns, "shape", ())
    return shape[0] if len(shape) else None
