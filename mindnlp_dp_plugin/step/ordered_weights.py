"""What a micro-batch weighs in the mean of a step whose sums do not depend on the number of ranks."""

from collections.abc import Callable
from typing import NamedTuple

import mindspore

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.micro_batches import MicroBatches
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.step.weights import COUNTS, count_micro_step
from mindnlp_dp_plugin.trainers.port import Door


class Counted(NamedTuple):
    """A micro-batch: what it counts, and its mean loss, None if it counts nothing."""

    count: int
    loss: mindspore.Tensor | None


class OrderedWeights:
    """The mean over the micro-batches of a step, each with what ``average_over`` counts in it.

    The mean of ranks' means is that of micro-batches here: which of them ranks compute must not matter. Counts are
    whole numbers, whose sum is exact; the sum of gradients is divided by it in the end.

    Args:
        door: The loop.
        collective: The ranks that train together.
        average_over: That of ``DataParallelConfig``.
        micro_batches: Those of a step.

    Attributes:
        latest: The last micro-batch of this rank.
        of_sum: What the sum of gradients is multiplied by; None before the last micro-step of a step, and for 1.
    """

    def __init__(self, door: Door, collective: Collective, average_over: str, micro_batches: MicroBatches):
        self._door, self._collective = door, collective
        self._are_equal = average_over in ("ranks", "micro_steps")
        self._count = count_micro_step if self._are_equal else COUNTS[average_over]
        self._num = micro_batches.num
        self.latest: Counted | None = None
        self.reset()
        self.begin_micro_step()

    def follow(self, parameters) -> None:
        """Nothing depends on the parameters."""

    def reset(self) -> None:
        """Begin another step."""
        self._total, self.of_sum = 0, None

    def begin_micro_step(self) -> None:
        """A new batch follows."""
        self._is_counted = False

    def weigh(self, batch) -> float:
        """The factor for the loss of a batch: 0 if it counts nothing. Call it before forward.

        Raises:
            DataParallelError: If it is the second batch of this micro-step.
        """
        if self._is_counted:
            raise DataParallelError(
                "elastic_determinism takes one batch for each training_step: an overridden training_step called "
                "super().training_step(model, inputs) twice. Compute further losses in compute_loss, or train without "
                "elastic_determinism."
            )
        self._is_counted = True
        count = self._count(batch, self._door.predicts_next_token)
        self._total += count
        self.latest = Counted(count, None)
        return 1.0 if count else 0.0

    def saw(self, loss: mindspore.Tensor) -> None:
        """Note the batch's mean loss."""
        self.latest = self.latest._replace(loss=loss)

    def factor_of_rank(self) -> Callable[[], float]:
        """What the gradients of this micro-batch weigh. All ranks must call it, in each micro-step."""
        if self._are_equal:
            return lambda: 1 / self._num
        if self._door.clock.optimizer_steps_next:
            total = sum(self._collective.all_gather_object(self._total, Message("counts of a step")))
            self.of_sum = 1 / total if total else 0.0
        count = self.latest.count
        return lambda: count

    def recorded(self, loss):
        """What the loop is to add to its sum of losses."""
        return mindspore.tensor(0.0) if loss is None else loss

    def require(self, is_weighed: bool) -> None:
        """Raise unless this micro-step's batch was counted."""
        if not self._is_counted:
            raise DataParallelError(
                "elastic_determinism has to see each batch: an overridden training_step must call "
                "super().training_step(model, inputs). Or train without elastic_determinism."
            )
