"""Arrays in memory that ranks share: each lies where no other does, as long as somebody uses it."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from mindnlp_dp_plugin.collectives.shared_memory import CACHE_LINE, SEGMENT_BYTES, Segment, SharedMemory
from mindnlp_dp_plugin.collectives.windows import Windows, add_by_tree
from mindnlp_dp_plugin.errors import DataParallelError


def test_an_array_keeps_its_place_as_long_as_a_view_of_it():
    memory = SharedMemory()
    array = memory.take(1000, np.float32)
    array[...] = 1
    view = array[10:20].reshape(2, 5)
    del array
    memory.take(1000, np.float32)[...] = 2
    assert (view == 1).all()
    place = memory.place_of(view)
    del view
    assert memory.place_of(memory.take(1000, np.float32)) == (place[0], 0)


def test_what_is_given_back_becomes_one_piece_again():
    memory, chance = SharedMemory(), np.random.default_rng(5)
    held = {}
    for number in range(2000):
        held[number] = memory.take(int(chance.integers(0, 100_000)), np.float16)
        held[number][...] = number % 1000
        for victim in chance.permutation(list(held))[: len(held) - int(chance.integers(1, 200))]:
            assert (held.pop(victim) == victim % 1000).all()
    del victim
    held.clear()
    places = [memory.place_of(memory.take(SEGMENT_BYTES // 2, np.uint16)) for _ in range(2)]
    assert places[0] == places[1] and places[0][1] == 0


def test_more_than_a_segment():
    memory = SharedMemory()
    large, small = memory.take(SEGMENT_BYTES + 1, np.uint8), memory.take(1, np.uint8)
    assert large.size == SEGMENT_BYTES + 1 and memory.place_of(large)[0] != memory.place_of(small)[0]
    assert memory.place_of(small)[1] % CACHE_LINE == 0
    assert memory.place_of(np.zeros(3)) is None


def test_another_process_writes_to_it():
    memory = SharedMemory()
    array = memory.take(10, np.float32)
    descriptor, offset = memory.place_of(array)
    parent = os.getpid()
    if not (child := os.fork()):
        Segment.of_process(parent, descriptor).array(offset, 10, np.float32)[...] = 3
        os._exit(0)
    os.waitpid(child, 0)
    assert (array == 3).all()


@pytest.mark.parametrize("change", [{"process": 1}, {"process": 2**22 - 1}, {"descriptor": 0}, {"token": 5}])
def test_a_rank_out_of_reach_is_told_to_all(change):
    def gather(mine):
        if not isinstance(mine, tuple):
            return [mine, None]
        told = dict(zip(("process", "descriptor", "token"), mine))
        return [mine, tuple({**told, **change}.values())]

    with pytest.raises(OSError, match="rank 0: "):
        Windows(range(2), 0, gather)


@pytest.fixture
def two_ranks():
    """The windows of two ranks, each made in a thread of its own."""
    meeting, told = threading.Barrier(2), {}

    def open_windows(rank):
        def gather(mine):
            told[rank] = mine
            meeting.wait()
            everyone = [told[0], told[1]]
            meeting.wait()
            return everyone

        return Windows(range(2), rank, gather)

    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(open_windows, (0, 1)))


def test_each_rank_adds_up_its_part(two_ranks):
    arrays = [windows.take(11, np.float32) for windows in two_ranks]
    arrays[0][...], arrays[1][...] = 1, np.arange(11)
    works = [windows.start(array) for windows, array in zip(two_ranks, arrays)]
    assert not works[1].progress()  # it has added up its part, and rank 0 has not
    for work in works:
        work.wait()
    for array in arrays:
        np.testing.assert_array_equal(array, 1 + np.arange(11))


def test_a_rank_that_sums_something_else_is_named(two_ranks):
    first, second = two_ranks
    first.start(first.take(10, np.float32))
    with pytest.raises(DataParallelError, match="^Rank 1 sums 48 bytes where rank 0 sums 40: one of them left a step"):
        second.start(second.take(12, np.float32))


@pytest.mark.parametrize("ranks", range(1, 9))
def test_ranks_are_added_in_the_order_of_a_binomial_tree(ranks):
    values = np.random.default_rng(ranks).standard_normal((ranks, 1000)).astype(np.float32)

    def tree(begin, size):
        if size == 1 or begin + size // 2 >= ranks:
            return values[begin] if size == 1 else tree(begin, size // 2)
        return tree(begin, size // 2) + tree(begin + size // 2, size // 2)

    expected = tree(0, 8)
    runs = [run.copy() for run in values]
    add_by_tree(runs)
    assert runs[0].tobytes() == expected.tobytes()
