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


class Witness:
    """Digests of what was read so far, equal on ranks that have read the same.

    Attributes:
        count: How many batches, or how many passes over a sample.
        columns: Those to look at: they tell rows apart, and are not random by design.
        digests: One for each of them, of all values so far.
    """

    def __init__(self):
        self.count = 0
        self.columns: set[str] = set()
        self.digests: dict[str, int] = {}

    def see(self, values: Mapping[str, Any]) -> None:
        """Take what every rank reads, as column name to tensor, array or numbers."""
        self.count += 1
        for column in self.columns & values.keys():
            value = values[column].asnumpy() if hasattr(values[column], "asnumpy") else np.asarray(values[column])
            digest = own_order.digest(value).to_bytes(8, "little")
            self.digests[column] = xxhash.xxh3_64_intdigest(digest, self.digests.get(column, 0))
