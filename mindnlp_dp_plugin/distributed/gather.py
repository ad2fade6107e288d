"""Gather scored rows from all ranks on every rank."""

from collections.abc import Mapping
from typing import Any

import mindspore
import numpy as np

from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.distributed.turns import turns
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.nested import map_leaves

MOST_ROWS = 2**32  # of a batch
PADDING = -100  # what MindNLP's Trainer and losses ignore


def gather_for_metrics(tensors: Any, rows: Any = None) -> Any:
    """Concatenate the rows of all ranks, on every rank, for a metric over the whole data set.

    All ranks must call it. With the Trainer you do not need it: ``compute_metrics`` and ``predict`` already get all
    rows. In a loop of your own over the evaluation rows of ``dp.prepare``, call it for each batch within the loop, or
    once after it for all rows: they come in the data set's order, each once. In any other loop, call it once, with the
    numbers of the rows.

    Args:
        tensors: Tensors or arrays of this rank with one entry per row, in tuples, lists or dictionaries; the same
            structure on all ranks, or None on a rank without rows.
        rows: The row numbers, in the data set, of this rank's rows. If given, the result is in that order and holds
            each row once, also if several ranks have it (a padded shard). None for the rows of ``dp.prepare``, or for
            the order of ranks.

    Returns:
        The same structure of NumPy arrays. Shorter rows are padded on the right with -100. None if no rank has rows.

    Raises:
        DataParallelError: If rows of ``dp.prepare`` are missing.

    Examples:
        In a loop over the evaluation rows of ``dp.prepare``:

        >>> for batch in held.create_dict_iterator():
        ...     predictions = model(**batch).logits.argmax(-1)
        ...     predictions, labels = dp.gather_for_metrics((predictions, batch["labels"]))

        In any other loop, with the numbers of the rows:

        >>> rows = range(dp.get_rank(), len(table), dp.get_world_size())
        >>> predictions, labels = dp.gather_for_metrics((predictions, labels), rows)
    """
    group = collectives.current()
    mine = None if tensors is None else (to_numpy(tensors), None if rows is None else list(rows))
    if mine and rows is None:
        mine = _in_turns(mine[0], group)
    return join(group.all_gather_object(mine, "dp.gather_for_metrics"))


def _in_turns(values, group):
    """Rows of a pass over prepared rows get their numbers; those of a batch that is repeated go."""
    places = turns.rows(_num_rows(values))
    if places is None:
        return values, None
    if not places:
        return None
    numbers = [(turn * group.world_size + group.rank) * MOST_ROWS + place for turn, place in places]
    return map_leaves(lambda array: np.atleast_1d(array)[: len(numbers)], values), numbers


def _num_rows(values):
    leaves = []
    map_leaves(leaves.append, values)
    return len(np.atleast_1d(leaves[0]))


def join(parts: list[tuple | None]) -> Any:
    """Join what each rank has: its arrays and row numbers, or None; see ``gather_for_metrics``."""
    parts = [part for part in parts if part is not None]
    if not parts:
        return None
    values, numbers = zip(*parts)
    gathered = concatenate(values)
    if numbers[0] is None:
        return gathered
    _, firsts = np.unique(np.concatenate(numbers), return_index=True)
    return map_leaves(lambda array: array[firsts], gathered)


def to_numpy(value: Any) -> Any:
    """Convert a structure of tensors to NumPy arrays; bfloat16, which NumPy lacks, becomes float32."""
    return map_leaves(_tensor_to_numpy, value)


def gather_arrays(values: np.ndarray, group: Collective, purpose: Message) -> list[np.ndarray]:
    """Each rank's array, by rank. All ranks must call it, with one shape and dtype.

    Args:
        values: This rank's.
        group: The ranks.
        purpose: What the exchange is for.
    """
    if values.dtype != np.float32 or not values.size:  # no engine but MPI sends all kinds of numbers
        return group.all_gather_object(values, purpose)
    flat = np.ascontiguousarray(values).reshape(-1)
    everyone = group.all_gather(flat) if group.uses_numpy else group.all_gather(mindspore.Tensor(flat)).asnumpy()
    return [part.reshape(values.shape) for part in np.split(everyone, group.world_size)]


def concatenate(parts: list) -> Any:
    """Concatenate structures of NumPy arrays along the rows; shorter rows are padded on the right.

    Args:
        parts: One or more equal structures.
    """
    first = parts[0]
    if isinstance(first, (list, tuple)):
        joined = [concatenate(column) for column in zip(*parts)]
        return type(first)(*joined) if hasattr(first, "_fields") else type(first)(joined)
    if isinstance(first, Mapping):
        return type(first)({key: concatenate([part[key] for part in parts]) for key in first})
    arrays = [np.atleast_1d(part) for part in parts]
    if arrays[0].ndim > 1:
        length = max(array.shape[1] for array in arrays)
        arrays = [_pad(array, length) for array in arrays]
    return np.concatenate(arrays)


def _tensor_to_numpy(value):
    if not isinstance(value, mindspore.Tensor):
        return value
    return (value.astype(mindspore.float32) if value.dtype == mindspore.bfloat16 else value).asnumpy()


def _pad(array, length):
    missing = length - array.shape[1]
    widths = [(0, 0), (0, missing)] + [(0, 0)] * (array.ndim - 2)
    return np.pad(array, widths, constant_values=PADDING) if missing else array
