"""Compares what the ranks have read, while they train."""

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.data import ShardedDataset
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.step.same_data import require_same_so_far


class ReadCheck:
    """Raises if a source gives ranks other rows: at each epoch's first step but the first, and whenever it is called.

    Args:
        dataset: This rank's part of the rows.
        collective: The ranks that train together.
        steps: What happens around the optimizer's steps.
    """

    def __init__(self, dataset: ShardedDataset, collective: Collective, steps: WatchedSteps):
        self._dataset, self._collective = dataset, collective
        self._epoch = None
        steps.after.append(self._end_step)

    def __call__(self) -> None:
        """Compare. All ranks must call it, after the same step.

        Raises:
            DataParallelError: If they have read what cannot be one order.
        """
        require_same_so_far("train_dataset", self._dataset, self._collective)

    def _end_step(self):
        if self._epoch not in (None, self._dataset.epoch):
            self()
        self._epoch = self._dataset.epoch
