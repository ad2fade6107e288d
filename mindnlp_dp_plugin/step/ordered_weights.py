"""What a micro-batch weighs in the mean of a step whose sums do not depend on the number of ranks."""

from typing import NamedTuple

import mindspore

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.micro_batches import MicroBatches
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.port import Door
from mindnlp_dp_plugin.step.auto_weights import AnnouncedCounts
from mindnlp_dp_plugin.step.weights import Weights


class Counted(NamedTuple):
    """A micro-batch: what it counts, and its mean loss, None if it counts nothing."""

    count: int
    loss: mindspore.Tensor | None


class OrderedWeights(Weights):
    """The mean over the micro-batches of a step: each weighs its share of what they count, or all weigh the same.

    The mean of ranks' means is that of micro-batches here: which of them ranks compute must not matter. Counts are
    whole numbers, whose sum is exact.

    Args:
        door: The loop.
        collective: The ranks that train together.
        by_counts: Whether counts weigh.
        micro_batches: Those of a step.

    Attributes:
        latest: The last micro-batch of this rank.
    """

    adds_up = False

    def __init__(self, door: Door, collective: Collective, by_counts: bool, micro_batches: MicroBatches):
        super().__init__(collective)
        self._door, self.looks_ahead, self._num = door, by_counts, micro_batches.num
        self.latest: Counted | None = None
        self._total, self._counts, self._place = 0, AnnouncedCounts(), -1
        self.begin_micro_step()

    def announce(self, batches):
        """The batches of a step."""
        if self.looks_ahead:
            self._counts, self._place = AnnouncedCounts(batches, self._door), -1

    def to_send(self):
        """What the batches of a step count."""
        return [sum(self._counts)] if self.looks_ahead else []

    def hear(self, totals):
        """What the micro-batches of all ranks count."""
        self._total = sum(totals)

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
        count = self._counts.found(self._place, batch) if self.looks_ahead else 1
        self.latest = Counted(count, None)
        return bool(count)

    def saw(self, loss: mindspore.Tensor):
        """Note the batch's mean loss."""
        self.latest = self.latest._replace(loss=loss)

    def factor_of_rank(self):
        """What the gradients of this micro-batch weigh."""
        total = self._total if self.looks_ahead else self._num
        return self.latest.count / total if total else 0.0

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
