"""The tree by which micro-batches are summed does not depend on the number of ranks."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.ddp.micro_batches import MicroBatches, Node, SumOfMicroBatches

MOST = 96


@st.composite
def splits(draw):
    """A number of micro-batches, and one of ranks that divides it."""
    num = draw(st.integers(1, MOST))
    return num, draw(st.sampled_from([ranks for ranks in range(1, num + 1) if num % ranks == 0]))


def written_out(left, right):
    """A sum that tells in which order it was made."""
    return f"({left}+{right})"


def sums_of(micro_batches):
    """What a rank holds when it has computed its micro-batches."""
    held = []
    for number in micro_batches.mine:
        micro_batches.push(held, Node(number, number + 1), str(number), written_out)
    return held


def whole_sum(node):
    """The sum of a node, from its micro-batches, as the tree says."""
    return written_out(*map(whole_sum, node.children)) if node.children else str(node.begin)


@given(splits())
def test_every_number_of_ranks_makes_the_same_sum(split):
    num, ranks = split
    held = {}
    for rank in range(ranks):
        micro_batches = MicroBatches(num, ranks, rank)
        sums = sums_of(micro_batches)
        assert [node for node, _ in sums] == micro_batches.nodes_of_ranks[rank]
        held |= dict(sums)
    assert all(value == whole_sum(node) for node, value in held.items())
    assert {number for node in held for number in range(*node)} == set(range(num))
    pairs = [(node.begin, node.end) for node in held]
    assert sum(end - begin for begin, end in pairs) == num  # each micro-batch once
    assert whole_sum(Node(0, num)) == add_up(Node(0, num), held)


def add_up(node, held):
    return held[node] if node in held else written_out(*(add_up(child, held) for child in node.children))


def most_held(micro_batches):
    """Beside the sum of the micro-batch that is computed."""
    held, most = [], 0
    for number in micro_batches.mine:
        most = max(most, len(held))
        micro_batches.push(held, Node(number, number + 1), None, lambda left, right: None)
    return most


@given(splits())
def test_few_sums_are_held(split):
    num, ranks = split
    per_rank = num // ranks
    most = max(most_held(MicroBatches(num, ranks, rank)) for rank in range(ranks))
    if per_rank & (per_rank - 1) == 0:
        assert most == per_rank.bit_length() - 1  # the logarithm
    else:
        assert most <= 2 * math.log2(per_rank)


def test_ranks_with_a_power_of_two_hold_one_sum_each():
    for num, ranks in ((4, 2), (8, 2), (6, 3), (24, 6), (12, 3)):
        assert all(len(nodes) == 1 for nodes in MicroBatches(num, ranks, 0).nodes_of_ranks)


@given(st.integers(1, 24), st.integers(0, 2**32 - 1))
def test_one_process_sums_arrays_by_the_tree(num, seed):
    chance = np.random.default_rng(seed)
    values = (chance.standard_normal((num, 5)) * 10.0 ** chance.integers(-8, 8, (num, 5))).astype(np.float32)
    total = SumOfMicroBatches(MicroBatches(num, 1, 0), SingleProcess())
    for each in values[:-1]:
        total.hold(each.copy())
    last = values[-1].copy()
    buffer, work = total.start(last, None)
    work.wait()
    assert buffer is last
    np.testing.assert_array_equal(buffer, of_tree(values))


def of_tree(values):
    if len(values) == 1:
        return values[0]
    middle = 2 ** ((len(values) - 1).bit_length() - 1)
    return of_tree(values[:middle]) + of_tree(values[middle:])
