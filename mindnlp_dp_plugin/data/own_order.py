"""One test of whether ranks can divide what a source gives: does a column that tells rows apart stand in its places?

Everything else of a row may be random, as augmentation makes it, and come from a generator of each rank's own. Where no
such column stays, the order may be one that each pass draws: rows that change cannot be told from rows that move.
"""

import pickle
from collections.abc import Iterator, Sequence

import numpy as np
import xxhash
from mindspore import dataset as ds
from mindspore.dataset.engine import datasets

Reading = dict[str, list[int]]
"""Digests of rows by column, in the order in which they came."""


def digest(value: np.ndarray | dict) -> int:
    """A number for a value, with its type and shape."""
    array = np.asarray(value)
    content = pickle.dumps(value) if array.dtype.hasobject else array.tobytes()
    return xxhash.xxh3_64_intdigest(f"{array.dtype}{array.shape}".encode() + content)


def identifying(reading: Reading) -> Reading:
    """Those columns in which most rows differ, or all if there is none: two labels may alternate in any order."""
    return {column: rows for column, rows in reading.items() if 2 * len(set(rows)) > len(rows)} or reading


def keeps_its_order(readings: Sequence[Reading]) -> bool:
    """Whether of the columns that tell rows apart one has the same values in the same places in all readings.

    A reading without rows has lost them.
    """
    telling = {column for each in readings for column, rows in each.items() if len(set(rows)) > 1}
    return all(readings) and (not telling or _is_one_alike(telling, readings))


def have_parted(digests: Sequence[dict[str, int]]) -> bool:
    """Whether ranks have read other rows, by what each has of columns that tell rows apart and are not random."""
    common = set.intersection(*map(set, digests))
    return bool(common) and not _is_one_alike(common, digests)


def _is_one_alike(columns, readings):
    return any(all(each.get(column) == readings[0].get(column) for each in readings) for column in columns)


def ordering_parts(pipeline: ds.Dataset) -> Iterator[ds.Dataset]:
    """What gives a pipeline its rows and their order: its sources with their samplers, and filters, before later maps.

    Shuffles draw alike on all ranks.
    """
    if isinstance(pipeline, datasets.FilterDataset) or not pipeline.children:
        yield pipeline
    for child in pipeline.children:
        yield from ordering_parts(child)
