"""Tell a source that draws its own order in each pass from one whose rows are random by design, as augmentation makes.

Ranks that divide rows among them rely on one order. Two things show another: values stand in other places than before;
or no column that tells rows apart keeps them in their places. Augmentation makes values that no other row has, and
leaves one such column as it is, or so much of a row that it is still the likest to itself.
"""

import itertools
from collections.abc import Sequence, Set
from typing import NamedTuple

import numpy as np
import xxhash
from mindspore import dataset as ds

PARTS = 16
FIRST_ROWS = 31  # a prime number, so that labels that repeat do not fit when the stream goes on


class Row(NamedTuple):
    """What is kept of one row's value: a digest, and those of some of its elements."""

    digest: int
    parts: tuple[int, ...]


Pass = dict[str, list[Row]]
"""The rows of one pass in the order in which they came, by column."""


def digest(value: np.ndarray) -> int:
    """A number for a value, with its type and shape."""
    return xxhash.xxh3_64_intdigest(f"{value.dtype}{value.shape}".encode() + value.tobytes())


def row(value: np.ndarray) -> Row:
    """What is kept of a row."""
    elements = np.ravel(value)
    places = np.unique(np.linspace(0, elements.size - 1, min(PARTS, elements.size)).astype(int))
    return Row(digest(np.asarray(value)), tuple(digest(element) for element in elements[places]))


def is_order_drawn_apart(passes_of_ranks: Sequence[Sequence[Pass]]) -> bool:
    """Whether ranks that run a whole pipeline read rows in orders that differ, and change from pass to pass.

    Args:
        passes_of_ranks: The same number of passes for each rank.
    """
    if not any(_changed(passes) for passes in passes_of_ranks):
        return False  # what one rank reads is always the same: another error shows a row that differs
    numbered = list(zip(*passes_of_ranks))
    return _lose_their_places(numbered) or any(map(_have_mostly_moved, numbered))


def have_parted(passes_of_ranks: Sequence[Sequence[Pass]], changing: Set[str]) -> bool:
    """Whether ranks that are to read the same rows have read others, not the same ones changed by chance.

    Args:
        passes_of_ranks: The same number of passes for each rank.
        changing: Columns that are random by design.
    """
    return any(_differ(passes, changing) for passes in zip(*passes_of_ranks))


def is_each_row_lost(passes: Sequence[Pass]) -> bool:
    """Whether no column says that a row which is read again is the same."""
    return bool(_changed(passes)) and _lose_their_places([passes])


def have_moved(passes: Sequence[Pass]) -> bool:
    """Whether some values that are read by number stand under other numbers than before: more than chance would."""
    return any(moved >= 4 for _, moved in _differing_and_moved(passes))


def is_read_once(pipeline: ds.Dataset) -> bool:
    """Whether a Python source goes on where the last pass stopped, or gives no more, as a file that was opened once.

    A source that may be one is begun twice for it.
    """
    if pipeline.children:
        return any(map(is_read_once, pipeline.children))
    source = getattr(pipeline, "source", None)
    if hasattr(source, "__getitem__") or not iterates_over_itself(source):
        return False
    first, second = (_first_rows(source) for _ in range(2))
    telling = [column for column in zip(*first) if len(set(column)) > 1]
    again = [column for column, values in zip(zip(*second), zip(*first)) if len(set(values)) > 1 and column == values]
    return not first or len(second) < len(first) or bool(telling) and not again


def _lose_their_places(groups):
    """Whether no column that tells rows apart has them in the same places in all passes of each group."""
    telling = _telling(itertools.chain(*groups))
    return bool(telling) and not any(all(_are_in_place(column, passes) for passes in groups) for column in telling)


def _are_in_place(column, passes):
    first, *others = (each.get(column, []) for each in passes)
    return all(rows == first or _are_likest_to_themselves(first, rows) for rows in others)


def _are_likest_to_themselves(rows, others):
    likeness = [[sum(map(int.__eq__, row.parts, other.parts)) for other in others] for row in rows]
    known = [
        to_others[place] > max((value for other, value in enumerate(to_others) if other != place), default=0)
        for place, to_others in enumerate(likeness)
        if place < len(to_others)
    ]
    return 2 * sum(known) > len(rows)


def _differ(passes, changing):
    telling = _telling(passes) - changing
    if not telling:
        return bool(_telling(passes)) and _lose_their_places([passes])
    distinct = {column for column in telling if 2 * len({*passes[0].get(column, [])}) > len(passes[0].get(column, []))}
    first, *others = passes
    groups = [{column} for column in distinct] or [telling]
    return any(_many_are_others(first, rows, columns) for rows in others for columns in groups)


def _many_are_others(rows, others, columns):
    """Whether an eighth of the rows, and two at least, are others: more than augmentation that was not seen before."""
    lost = [map(_is_another, rows.get(column, []), others.get(column, [])) for column in columns]
    return sum(map(all, zip(*lost))) >= max(2, len(rows.get(min(columns), [])) / 8)


def _is_another(value, other):
    return value != other and 2 * sum(map(int.__eq__, value.parts, other.parts)) < len(value.parts)


def _have_mostly_moved(passes):
    return any(4 * moved > differing for differing, moved in _differing_and_moved(passes) if moved)


def _differing_and_moved(passes):
    """For each column and later pass: how many values differ from the first pass', and how many of them it had, too."""
    for each in passes[1:]:
        for column, rows in each.items():
            first = passes[0].get(column, [])
            known = {row.digest for row in first}
            if 2 * len(known) > len(first):  # not a few labels, one of which augmentation may put for another
                differing = [other.digest for row, other in zip(first, rows) if row != other]
                yield len(differing), sum(digest in known for digest in differing)


def _telling(passes):
    return {column for each in passes for column, rows in each.items() if len(set(rows)) > 1}


def _changed(passes):
    return {column for each in passes for column in each if each[column] != passes[0].get(column)}


def iterates_over_itself(source) -> bool:
    """Whether each pass over a Python source goes on where the last one stopped; nothing is read for it."""
    if callable(source):
        return source() is source()
    return hasattr(source, "__iter__") and iter(source) is source


def _first_rows(source):
    rows = iter(source() if callable(source) else source)
    return [_digests(values) for values in itertools.islice(rows, FIRST_ROWS)]


def _digests(values):
    values = values.values() if isinstance(values, dict) else values if isinstance(values, tuple | list) else [values]
    return [digest(np.asarray(value)) for value in values]
