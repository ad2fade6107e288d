"""A loss that compares each row of a rank with its other rows alone, as contrastive losses for one process do."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mindnlp_dp_plugin.distributed.gather import to_numpy
from mindnlp_dp_plugin.errors import DataParallelError

LEAST_ROWS = 4
CHANCE = 1e-6


class OwnRows:
    """Refuses a cross entropy whose labels are 0, 1, 2, ... for as many classes as this rank has rows.

    Labels of classes may be so in a batch, by chance. So they must be so in each batch from the first on, until that
    is less likely than one in a million, and no column of the batch may hold them.
    """

    def __init__(self):
        self._chance = 1.0  # 0 once it is known that the loss is another

    def require_others(self, scores, labels, batch: Any) -> None:
        """Look at a cross entropy within the loss of a batch.

        Args:
            scores: Of shape (rows, classes).
            labels: Of shape (rows,).
            batch: What the loop took from the rows.

        Raises:
            DataParallelError: If each row is compared with those of this rank.
        """
        if not self._chance or labels.ndim != 1 or scores.shape != 2 * tuple(labels.shape):
            return
        num_rows = len(labels)
        columns = batch.values() if isinstance(batch, Mapping) else ()
        columns = [values for values in columns if getattr(values, "ndim", 0)]
        places, is_large = np.arange(num_rows), num_rows >= LEAST_ROWS
        are_own = is_large and bool(columns) and len(columns[0]) == num_rows  # and not those of all ranks
        if not are_own or not _are(labels, places) or any(_are(values, places) for values in columns):
            self._chance = 0.0
            return
        self._chance *= float(num_rows) ** -num_rows
        if self._chance < CHANCE:
            raise DataParallelError(
                "A cross entropy compares each row with those of its own rank alone: its labels are 0 to {last} for "
                "the {count} rows. One process compares it with the whole batch. Give what you compare to "
                "dp.all_gather first, and compute the loss from what that returns. With MindNLP 0.4 "
                "average_over='ranks' lets each rank compare its own rows.",
                last=num_rows - 1,
                count=num_rows,
            )


def _are(values, places):
    return values.ndim == 1 and np.array_equal(to_numpy(values), places)
