"""Tell a source that draws its own order in each pass from one whose rows are random by design, as augmented ones.

Ranks that run a whole pipeline and take every N-th batch rely on one order. A pass is compared with the pass of the
same number on other ranks, and with others on its own rank. Columns whose values are all alike tell nothing; of the
others, augmentation leaves at least one as it is, a new order none.
"""

from collections.abc import Sequence
from types import GeneratorType

from mindspore import dataset as ds

Pass = dict[str, list[int]]
"""The first rows of one pass: a digest for each row, by column."""


def is_order_drawn_apart(passes_of_ranks: Sequence[Sequence[Pass]]) -> bool:
    """Whether ranks read their rows in orders that differ, and change from pass to pass.

    Args:
        passes_of_ranks: The same number of passes for each rank.
    """
    together = [column for column in _telling(passes_of_ranks) if _is_same_on_all_ranks(column, passes_of_ranks)]
    return _differ(passes_of_ranks) and not together and any(map(_has_changed, passes_of_ranks))


def is_never_read_again(passes: Sequence[Pass], pipeline: ds.Dataset) -> bool:
    """Whether a source goes on where the last pass stopped, or gives no more, as a file that was opened once does."""
    is_shorter = any(sum(map(len, later.values())) < sum(map(len, passes[0].values())) for later in passes[1:])
    return is_shorter or (_has_changed(passes) and any(map(_iterates_over_itself, _sources(pipeline))))


def _differ(passes_of_ranks):
    return any(passes != passes_of_ranks[0] for passes in passes_of_ranks)


def _telling(passes_of_ranks):
    passes = [each for passes in passes_of_ranks for each in passes]
    return {column for each in passes for column, rows in each.items() if len(set(rows)) > 1}


def _is_same_on_all_ranks(column, passes_of_ranks):
    return len({tuple(tuple(each.get(column, ())) for each in passes) for passes in passes_of_ranks}) == 1


def _has_changed(passes):
    """Whether on one rank every telling column was another in a later pass."""
    telling = _telling([passes])
    return bool(telling) and all(
        any(each.get(column) != passes[0].get(column) for each in passes) for column in telling
    )


def _sources(node):
    if not node.children:
        yield node
    for child in node.children:
        yield from _sources(child)


def _iterates_over_itself(node):
    source = getattr(node, "source", None)  # MindSpore keeps what a generator object gave
    if isinstance(source, GeneratorType) or not hasattr(source, "__iter__"):
        return callable(source) and source() is source()
    return iter(source) is source
