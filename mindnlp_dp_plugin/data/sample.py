"""A sample of a data set's rows, read more than once, to tell whether ranks hold the same rows."""

import copy
from collections.abc import Iterator

import numpy as np
import xxhash
from mindspore import dataset as ds

from mindnlp_dp_plugin.data.sampler import NumberedRows
from mindnlp_dp_plugin.data.shard import is_sharded_by_user, plan_by_row, with_sampler
from mindnlp_dp_plugin.data.sharded import ShardedDataset, drawing_from
from mindnlp_dp_plugin.language import tr

MOST_ROWS = 32
SHOWN_NUMBERS = 16


class RowSample:
    """Up to 32 rows, spread over a data set and transformed by its pipeline, without its shuffles.

    If rows cannot be read by number, the sample is the first batch. If the data is sharded already, it is empty.

    Args:
        dataset: The whole pipeline, batched. It is not changed.

    Attributes:
        unit: What the numbers count: ``row`` or ``batch``.
    """

    def __init__(self, dataset: ds.Dataset | ShardedDataset):
        self.unit = "batch"
        self._pipeline, self._numbers = None, []
        self._values = {}
        if isinstance(dataset, ShardedDataset) or is_sharded_by_user(dataset):
            return
        pipeline = copy.deepcopy(dataset)
        plan = plan_by_row(pipeline)
        if plan is None:
            self._pipeline, self._numbers = pipeline, [0]
        elif num_rows := plan.source.get_dataset_size():
            self.unit = "row"
            self._numbers = sorted({round(row) for row in np.linspace(0, num_rows - 1, MOST_ROWS)})
            plan.path = plan.before_batching
            self._pipeline = with_sampler(plan, NumberedRows(self._numbers))

    def read(self, times: int) -> tuple[dict[tuple[int, str], int], set[str]]:
        """Read the rows ``times`` times, each time with another seed for all random streams.

        Returns:
            A digest of each value by row number and column, and the columns in which a value changed.
        """
        digests, changing = {}, set()
        for seed in range(times):
            for row, column, value in self._read_once(seed):
                digest = _digest(value)
                if digests.setdefault((row, column), digest) != digest:
                    changing.add(column)
                self._values[row, column] = value
        return digests, changing

    def shown(self, row: int, column: str) -> tuple[int | None, str]:
        """A digest of the value last read there, None if there is none; and a short text that identifies it."""
        value = self._values.get((row, column))
        if value is None:
            return None, tr("nothing")
        text = np.array2string(value, threshold=SHOWN_NUMBERS, max_line_width=10**6)
        digest = _digest(value)
        is_whole = value.size <= SHOWN_NUMBERS
        return digest, text if is_whole else tr("{text} (digest {digest:x})", text=text, digest=digest)

    def _read_once(self, seed) -> Iterator[tuple[int, str, np.ndarray]]:
        if self._pipeline is None:
            return
        with drawing_from(seed):
            rows = self._pipeline.create_dict_iterator(num_epochs=1, output_numpy=True)
            for number, columns in zip(self._numbers, rows):
                for column, value in columns.items():
                    yield number, column, value


def _digest(value):
    return xxhash.xxh3_64_intdigest(f"{value.dtype}{value.shape}".encode() + value.tobytes())
