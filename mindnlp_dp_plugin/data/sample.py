"""A sample of a data set's rows, read more than once, to tell whether ranks hold the same rows."""

import copy
import math
import random
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from mindspore import dataset as ds

from mindnlp_dp_plugin.data import own_order
from mindnlp_dp_plugin.data.dispatched import is_read_once
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

    Attributes:
        unit: What the numbers count: ``row`` or ``batch``.
        digests: Of each value of the first reading, by row number and column.
        changing: Columns in which a value has changed in a later one.
        may_be_read_once: Whether a source iterates over itself: a second pass may have other rows, or none.
    """

    def __init__(self, dataset: ds.Dataset | ShardedDataset):
        self.unit, self.may_be_read_once = "batch", False
        self.digests: dict[tuple[int, str], int] = {}
        self.changing: set[str] = set()
        self._pipeline, self._numbers = None, []
        self._values = {}
        if isinstance(dataset, ShardedByBatch):
            dataset = dataset.whole
        if isinstance(dataset, ShardedDataset) or is_sharded_by_user(dataset):
            return
        self.may_be_read_once = is_read_once(dataset)
        self._dataset, pipeline = dataset, copy.deepcopy(dataset)
        plan = plan_by_row(pipeline)
        if plan is None:
            num_batches = math.ceil(MOST_ROWS / max(1, pipeline.get_batch_size() or 1))
            self._pipeline, self._numbers = pipeline, list(range(num_batches))
        elif num_rows := plan.source.get_dataset_size():
            self.unit = "row"
            self._numbers = sorted({round(row) for row in np.linspace(0, num_rows - 1, MOST_ROWS)})
            plan.path = plan.before_batching
            self._pipeline = with_sampler(plan, NumberedRows(self._numbers))

    def read(self, seed: int = 0) -> own_order.Reading:
        """Read the rows once.

        Args:
            seed: That of all random streams; for batches, which MindSpore shuffles, of those of Python and NumPy.
        """
        reading = defaultdict(list)
        for place, column, value in self._read_once(seed):
            digest = own_order.digest(value)
            if self.digests.setdefault((place, column), digest) != digest:
                self.changing.add(column)
            self._values[place, column] = value
            reading[column].append(digest)
        return dict(reading)

    def read_often(self, times: int) -> tuple[dict[tuple[int, str], int], set[str]]:
        """Read the rows ``times`` times, each time with another seed; batches with the same: see ``read``.

        Returns:
            ``digests`` and ``changing``.
        """
        for number in range(times):
            self.read(number if self.unit == "row" else 0)
        return self.digests, self.changing

    def read_in_order(self) -> list[list[own_order.Reading]]:
        """What is to keep its order, of each part of the pipeline that gives it one: read twice, with the same draws.

        By number both readings are to be the same, and where a source iterates over itself or has lost rows. Otherwise
        each pass may have another order, if all ranks have it: the readings are one.
        """
        if self._pipeline is None:
            return []
        return [_read_twice(part) for part in own_order.ordering_parts(copy.deepcopy(self._dataset))]

    def steady_columns(self) -> set[str]:
        """Columns that tell rows apart and have not changed, read once more with other draws."""
        self.read(1)
        distinct = defaultdict(set)
        for (_, column), value in self._values.items():
            distinct[column].update(map(own_order.digest, [value] if self.unit == "row" else np.atleast_1d(value)))
        return {column for column, rows in distinct.items() if len(rows) > 1} - self.changing

    def shown(self, row: int, column: str) -> tuple[int | None, str]:
        """A digest of the value last read there, None if there is none; and a short text that identifies it."""
        value = self._values.get((row, column))
        if value is None:
            return None, tr("nothing")
        text = np.array2string(value, threshold=SHOWN_NUMBERS, max_line_width=10**6)
        digest = own_order.digest(value)
        is_whole = value.size <= SHOWN_NUMBERS
        return digest, text if is_whole else tr("{text} (digest {digest:x})", text=text, digest=digest)

    def _read_once(self, seed) -> Iterator[tuple[int, str, np.ndarray]]:
        if self._pipeline is None:
            return
        with drawing_from(seed if self.unit == "row" else 0):
            random.seed(seed)
            np.random.seed(seed)
            rows = self._pipeline.create_dict_iterator(num_epochs=1, output_numpy=True)
            for number, columns in zip(self._numbers, rows):
                for column, value in columns.items():
                    yield number, column, value


def _read_twice(part):
    part.parent = []
    sample, source = RowSample(part), getattr(part, "source", None)
    if sample.unit == "row" and source is None:
        return []  # files, which MindSpore reads
    first, again = sample.read(), sample.read()
    if sample.unit == "row":
        return [first, again]
    if not first and (source is None or hasattr(source, "__getitem__")):
        return []  # a filter may leave no rows
    if source is not None:
        first = own_order.identifying(first)
    again = {column: again[column] for column in first if column in again}
    if sample.may_be_read_once or [*map(len, first.values())] != [*map(len, again.values())]:
        return [first, again]
    return [{column: rows + again[column] for column, rows in first.items()}]
