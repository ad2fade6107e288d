"""What a rank has read of a source while it trains, to be compared with what the others have read.

The sample that is read before training shows an order that is drawn in each pass, but not one that changes later. By
batch every rank reads all batches, so all of them are compared, at no further reading. By row each rank reads its own
rows; there the sample is read again after each epoch.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xxhash

from mindnlp_dp_plugin.data import own_order

MOST_ROWS = 64


class Witness:
    """Digests of what was read so far, equal on ranks that have read the same.

    Attributes:
        count: How many batches, or how many passes over a sample.
        digests: One for each column, of all values so far.
        passes: Of this pass and the last, up to 64 rows each, spread over its batches: what tells another order from
            rows that are random by design.
        changing: Columns that are random by design.
    """

    def __init__(self):
        self.count, self._number, self._stride = 0, 0, 1  # number: of the pass's next row
        self.changing: set[str] = set()
        self.digests: dict[str, int] = {}
        self.passes: list[own_order.Pass] = []

    def begin_pass(self) -> None:
        """The next batches are the first of a pass."""
        self.passes = [*self.passes[-1:], {}]
        self._number, self._stride = 0, 1

    def see_batch(self, batch: Mapping[str, Any]) -> None:
        """Take a batch that every rank reads, as column name to tensor or array."""
        self.count += 1
        columns = {
            name: np.atleast_1d(value if isinstance(value, np.ndarray) else value.asnumpy())
            for name, value in batch.items()
        }
        for column, array in columns.items():
            self._see(column, own_order.digest(array))
        self._keep(columns)

    def _keep(self, columns):
        size = min(map(len, columns.values()), default=0)
        for place in range(-self._number % self._stride, size, self._stride):
            for column, array in columns.items():
                self.passes[-1].setdefault(column, []).append(own_order.row(array[place]))
        self._number += size
        while any(len(rows) > MOST_ROWS for rows in self.passes[-1].values()):
            self.passes[-1] = {column: rows[::2] for column, rows in self.passes[-1].items()}
            self._stride *= 2

    def see_sample(self, rows: own_order.Pass) -> None:
        """Take rows that were read again by number."""
        self.count += 1
        self.passes = [rows]
        for column, values in rows.items():
            for value in values:
                self._see(column, value.digest)

    def _see(self, column, digest):
        self.digests[column] = xxhash.xxh3_64_intdigest(digest.to_bytes(8, "little"), self.digests.get(column, 0))
