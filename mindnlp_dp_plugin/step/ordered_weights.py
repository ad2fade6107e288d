"""What a micro-batch weighs in the mean of a step whose sums do not depend on the number of ranks."""

from typing import NamedTuple

import mindspore

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.micro_batches import MicroBatches
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.port import Door
from mindnlp_dp_plugin.step.auto_weights import AnnouncedCounts
from mindnlp_dp_plugin.step.weights import Weights, count_micro_step, counted

EQUAL = ("ranks", "micro_steps")


class Counted(NamedTuple):
    """A micro-batch: what it counts, and its mean loss, None if it counts nothing."""

    count: int
    loss: mindspore.Tensor | None


class OrderedWeights(Weights):
    """The mean over the micro-batches of a step, each with what ``average_over`` counts in it.

    The mean of ranks' means is that of micro-batches here: which of them ranks compute must not matter. Counts are
    whole numbers, whose sum is exact. Where they are known before the first micro-batch, each weighs its share of it;
    otherwise the sum of gradients is divided by it in the end.

    Args:
        door: The loop.
        collective: The ranks that train together.
        average_over: That of ``DataParallelConfig``.
        micro_batches: Those of a step.

    Attributes:
        latest: The last micro-batch of this rank.
        of_sum: What the sum of gradients is multiplied by; None before the last micro-step of a step, and for 1.
    """

    adds_up = False

    def __init__(self, door: Door, collective: Collective, average_over: str, micro_batches: MicroBatches):
        super().__init__(collective)
        self._door, self._average_over, self._num = door, average_over, micro_batches.num
        self.looks_ahead = average_over == "auto"
        self.latest: Counted | None = None
        self._counts, self._place = AnnouncedCounts(), -1
        self.reset()
        self.begin_micro_step()

    def reset(self):
        """Begin another step."""
        self._total, self.of_sum = 0, None

    def announce(self, batches):
        """The batches of a step, if their counts are to travel; otherwise the next."""
        self._counts, self._place = AnnouncedCounts(batches, self._door if self.looks_ahead else None), -1

    def to_send(self):
        """What the batches of a step count."""
        return [sum(self._counts)] if self._average_over == "auto" else []

    def hear(self, totals):
        """What the micro-batches of all ranks count."""
        if totals:
            (self._total,) = totals

    def begin_micro_step(self):
        """A new batch follows."""
        self._place += 1
        self._is_counted = False

    def weigh(self, batch):
        """Count a batch.

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
        count = self._count(batch)
        if self._average_over != "auto":
            self._total += count
        self.latest = Counted(count, None)
        return bool(count)

    def saw(self, loss: mindspore.Tensor):
        """Note the batch's mean loss."""
        self.latest = self.latest._replace(loss=loss)

    def factor_of_rank(self):
        """What the gradients of this micro-batch weigh. All ranks must call it, in each micro-step."""
        count = self.latest.count
        if self._average_over in EQUAL:
            return lambda: 1 / self._num
        if self._average_over == "auto":
            return lambda: count / self._total if self._total else 0.0
        if self._door.clock.optimizer_steps_next:
            total = sum(self._collective.all_gather_object(self._total, Message("counts of a step")))
            self.of_sum = 1 / total if total else 0.0
        return lambda: count

    def recorded(self, loss):
        """What the loop is to add to its sum of losses."""
        return mindspore.tensor(0.0) if loss is None else loss

    def require(self, is_weighed):
        """Raise unless this micro-step's batch was counted."""
        if not self._is_counted:
            raise DataParallelError(
                "elastic_determinism has to see each batch: an overridden training_step must call "
                "super().training_step(model, inputs). Or train without elastic_determinism."
            )

    def _count(self, batch):
        if self._average_over in EQUAL:
            return count_micro_step(batch)
        if self._average_over == "auto":
            return self._counts.found(self._place, batch)
        is_repeated = len(self._counts) > 0 and self._counts.is_repeated(self._place)
        return 0 if is_repeated else counted(batch, self._average_over, self._door)
