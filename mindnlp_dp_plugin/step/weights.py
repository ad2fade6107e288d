"""What a micro-step's loss weighs in the mean of a step; here the same for all."""

from collections.abc import Mapping, Sequence

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.port import Announced, Door
from mindnlp_dp_plugin.step.padded_rows import PaddedRows


class Weights:
    """What a step asks about its micro-steps; of itself, nothing depends on batches, losses or parameters.

    In a micro-step: ``begin_micro_step``, ``weigh``, forward, ``factor``, backward, ``recorded``, ``require``.

    Attributes:
        looks_ahead: Whether counts of a step's batches travel together, which are read before the first is computed.
        is_repeated: Whether another rank has the batch of this micro-step, too, and here it counts nothing.
        adds_up: Whether the factors of all ranks' losses add up to the number of ranks, and gradients get no other.
    """

    looks_ahead = False
    is_repeated = False
    adds_up = True

    def __init__(self, collective: Collective):
        self._collective = collective

    @property
    def share(self) -> float:
        """What this rank's gradients weigh in the sum over ranks, if no weight of a loss is in them."""
        return 1 / self._collective.world_size

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

    def factor_of_rank(self) -> float | None:
        """What this rank's gradients weigh in the sum, behind forward; None if all ranks' count the same."""

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


class WeightsOfTheLoop(EqualWeights):
    """The loop weighs losses itself; ranks tell each other how long their rows are."""

    def __init__(self, door: Door, collective: Collective):
        super().__init__(door, collective)
        self._padding = PaddedRows(door, collective)
        self.announce, self.to_send, self.hear = self._padding.announce, self._padding.to_send, self._padding.hear
