"""A sample of a data set's rows, read more than once, to tell whether ranks hold the same rows."""

import copy
import math
import random
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from mindspore import dataset as ds

from mindnlp_dp_plugin.data import own_order
from mindnlp_dp_plugin.data.sampler import NumberedRows
from mindnlp_dp_plugin.data.shard import is_sharded_by_user, plan_by_row, with_sampler
from mindnlp_dp_plugin.data.sharded import ShardedByBatch, ShardedDataset, drawing_from
from mindnlp_dp_plugin.language import tr

MOST_ROWS = 32
SHOWN_NUMBERS = 16


class RowSample:
    """Up to 32 rows, spread over a data set and transformed by its pipeline, without its shuffles.

    If rows cannot be read by number, the sample is the first batches. If the user has sharded the data, it is empty.

    Args:
        dataset: The whole pipeline, batched. It is not changed.
        most_rows: How many, if they are read by number.

    Attributes:
        unit: What the numbers count: ``row`` or ``batch``.
        passes: The rows of each reading.
        is_read_once: Whether the source gives its rows once, so that a second pass has others, or none.
        changing: Columns that have changed between two readings on any rank, once ranks have compared theirs.
    """

    def __init__(self, dataset: ds.Dataset | ShardedDataset, most_rows: int = MOST_ROWS):
        self.unit, self.num_rows, self.is_read_once = "batch", 0, False
        self.passes: list[own_order.Pass] = []
        self.changing: set[str] = set()
        self._pipeline, self._numbers = None, []
        self._values = {}
        if isinstance(dataset, ShardedByBatch):
            dataset = dataset.whole
        if isinstance(dataset, ShardedDataset) or is_sharded_by_user(dataset):
            return
        self._dataset, pipeline = dataset, copy.deepcopy(dataset)
        plan = plan_by_row(pipeline)
        if plan is None:
            num_batches = math.ceil(MOST_ROWS / max(1, pipeline.get_batch_size() or 1))
            self._pipeline, self._numbers = pipeline, list(range(num_batches))
            self.is_read_once = own_order.is_read_once(pipeline)
        elif num_rows := plan.source.get_dataset_size():
            self.unit, self.num_rows = "row", num_rows
            self._numbers = sorted({round(row) for row in np.linspace(0, num_rows - 1, most_rows)})
            plan.path = plan.before_batching
            self._pipeline = with_sampler(plan, NumberedRows(self._numbers))

    def read(self, times: int, draws_anew: bool = True) -> tuple[dict[tuple[int, str], int], set[str]]:
        """Read the rows ``times`` times, each time with another seed for all random streams; batches with the same.

        Args:
            times: How often.
            draws_anew: Whether MindSpore's own operators draw anew each time, as ``split`` does, or only Python and
                NumPy.

        Returns:
            A digest of each value by row number and column, and the columns in which a value changed.
        """
        digests, changing = {}, set()
        for number in range(times):
            rows = defaultdict(list)
            seed = number if self.unit == "row" else 0
            for place, column, value in self._read_once(seed if draws_anew else 0, seed):
                digest = own_order.digest(value)
                if digests.setdefault((place, column), digest) != digest:
                    changing.add(column)
                self._values[place, column] = value
                rows[column].extend(map(own_order.row, [value] if self.unit == "row" else np.atleast_1d(value)))
            self.passes.append(dict(rows))
        return digests, changing

    def read_again(self) -> own_order.Pass:
        """The rows as they are now, in the columns that have not changed so far; drawn as in the first reading."""
        self.read(1)
        return {column: rows for column, rows in self.passes.pop().items() if column not in self.changing}

    def has_moved(self) -> bool:
        """Whether rows that were read by number stand under other numbers now, as in a source that shuffles itself."""
        if self.unit == "batch" or not own_order.is_each_row_lost(self.passes):
            return False
        many = RowSample(self._dataset, min(self.num_rows, 4 * math.isqrt(self.num_rows) + 1))  # 16 of them meet again
        many.read(2, draws_anew=False)
        return own_order.have_moved(many.passes)

    def shown(self, row: int, column: str) -> tuple[int | None, str]:
        """A digest of the value last read there, None if there is none; and a short text that identifies it."""
        value = self._values.get((row, column))
        if value is None:
            return None, tr("nothing")
        text = np.array2string(value, threshold=SHOWN_NUMBERS, max_line_width=10**6)
        digest = own_order.digest(value)
        is_whole = value.size <= SHOWN_NUMBERS
        return digest, text if is_whole else tr("{text} (digest {digest:x})", text=text, digest=digest)

    def _read_once(self, seed, seed_of_python) -> Iterator[tuple[int, str, np.ndarray]]:
        if self._pipeline is None:
            return
        with drawing_from(seed):
            random.seed(seed_of_python)
            np.random.seed(seed_of_python)
            rows = self._pipeline.create_dict_iterator(num_epochs=1, output_numpy=True)
            for number, columns in zip(self._numbers, rows):
                for column, value in columns.items():
                    yield number, column, value
