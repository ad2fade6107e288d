"""Rows that the ranks have scored, brought together on every rank."""

from collections.abc import Callable, Mapping
from typing import Any

import mindspore
import numpy as np

from mindnlp_dp_plugin import collectives

PADDING = -100  # what MindNLP's Trainer, and its losses, take for "not there"


def gather_for_metrics(tensors: Any, rows: Any = None) -> Any:
    """Every rank's rows together, on every rank: what a metric over the whole data set needs.

    To be called on all ranks, once, after the loop over the data. The Trainer does this for you: ``compute_metrics``
    and ``predict`` have all rows already. This is for a loop of your own::

        rows = range(rank, len(table), world_size)
        predictions, labels = dp.gather_for_metrics((predictions, labels), rows)

    Args:
        tensors: Tensors or arrays of this rank, one entry a row, in tuples, lists or dictionaries; of the same
            structure on all ranks, or None on a rank that has no rows.
        rows: The number in the data set of each of this rank's rows. If given, rows come in that order, and those that
            several ranks have (a padded shard's) come once. Otherwise rank after rank, all of them.

    Returns:
        The same structure, of NumPy arrays. Where lengths differ, rows are padded on the right with -100. None if no
        rank has rows.
    """
    mine = None if tensors is None else (to_numpy(tensors), None if rows is None else list(rows))
    return join(collectives.current().all_gather_object(mine))


def join(parts: list[tuple | None]) -> Any:
    """The rows of all ranks: each rank's arrays and the numbers of its rows, or None; see ``gather_for_metrics``."""
    parts = [part for part in parts if part is not None]
    if not parts:
        return None
    values, numbers = zip(*parts)
    gathered = concatenate(values)
    if numbers[0] is None:
        return gathered
    _, firsts = np.unique(np.concatenate(numbers), return_index=True)
    return _map(lambda array: array[firsts], gathered)


def to_numpy(value: Any) -> Any:
    """A structure of tensors as one of NumPy arrays; bfloat16, which NumPy does not have, as float32."""
    return _map(_tensor_to_numpy, value)


def concatenate(parts: list) -> Any:
    """Structures of NumPy arrays, joined array by array along the rows; shorter rows are padded on the right.

    Args:
        parts: At least one structure, all alike.
    """
    first = parts[0]
    if isinstance(first, (list, tuple)):
        return _sequence(type(first), [concatenate(column) for column in zip(*parts)])
    if isinstance(first, Mapping):
        return type(first)({key: concatenate([part[key] for part in parts]) for key in first})
    arrays = [np.atleast_1d(part) for part in parts]
    if arrays[0].ndim > 1:
        length = max(array.shape[1] for array in arrays)
        arrays = [_pad(array, length) for array in arrays]
    return np.concatenate(arrays)


def _map(function: Callable, value):
    if isinstance(value, (list, tuple)):
        return _sequence(type(value), [_map(function, item) for item in value])
    if isinstance(value, Mapping):
        return type(value)({key: _map(function, item) for key, item in value.items()})
    return function(value)


def _sequence(kind, items):
    return kind(*items) if hasattr(kind, "_fields") else kind(items)  # a named tuple takes them one by one


def _tensor_to_numpy(value):
    if not isinstance(value, mindspore.Tensor):
        return value
    return (value.astype(mindspore.float32) if value.dtype == mindspore.bfloat16 else value).asnumpy()


def _pad(array, length):
    missing = length - array.shape[1]
    widths = [(0, 0), (0, missing)] + [(0, 0)] * (array.ndim - 2)
    return np.pad(array, widths, constant_values=PADDING) if missing else array
