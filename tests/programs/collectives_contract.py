"""The contract of ``Collective``, checked on every rank of a running job: a part of ``engines.py``."""

import multiprocessing
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import mindspore
import numpy as np

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives

GROUP = collectives.current()
SUM_OF_RANKS = sum(range(GROUP.world_size))
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def buffer_of(values):
    if not GROUP.uses_numpy:
        return mindspore.Tensor(values)
    buffer = GROUP.memory_for(values.size, values.dtype)
    buffer[...] = values
    return buffer


def values_of(buffer):
    return buffer if GROUP.uses_numpy else buffer.asnumpy()


@check
def rank_and_size_are_those_of_the_launcher():
    assert GROUP.all_gather_object(GROUP.rank) == list(range(GROUP.world_size))
    assert dp.get_rank() == GROUP.rank and dp.get_world_size() == GROUP.world_size
    assert dp.get_local_rank() == GROUP.rank, "all ranks are on this host"


@check
def all_reduce_sums_in_place():
    for length in (0, 1, 3, 1000, 2**20 + 1, 6 * 2**20 + 1) if GROUP.uses_numpy else (1, 3, 1000, 2**20 + 1):
        buffer = buffer_of(np.arange(length, dtype=np.float32) % 7 + GROUP.rank)
        GROUP.all_reduce(buffer).wait()
        expected = (np.arange(length) % 7) * GROUP.world_size + SUM_OF_RANKS
        np.testing.assert_array_equal(values_of(buffer), expected)


@check
def all_reduce_leaves_the_same_bits_on_all_ranks():
    generator = np.random.default_rng(GROUP.rank)
    buffer = buffer_of(generator.standard_normal(100_003).astype(np.float32))
    GROUP.all_reduce(buffer).wait()
    everyone = GROUP.all_gather_object(values_of(buffer).tobytes())
    assert all(theirs == everyone[0] for theirs in everyone)


@check
def a_sum_does_not_depend_on_its_place():
    if GROUP.uses_numpy:
        values = np.random.default_rng(GROUP.rank).standard_normal(400_003).astype(np.float32)
        for begin in (0, 777, 262_143):
            whole, piece = buffer_of(values), buffer_of(values[begin : begin + 5000])
            own = values[begin : begin + 5000].copy(), values.copy()
            works = [GROUP.all_reduce(buffer) for buffer in (whole, piece, *own)]
            for work in works:
                work.wait()
            np.testing.assert_array_equal(whole[begin : begin + 5000], piece)
            np.testing.assert_array_equal(own[1][begin : begin + 5000], own[0])


@check
def reduce_scatter_gives_each_rank_its_part_of_what_all_reduce_sums():
    for numbers in ((0, 1, 3), (1000, 1000, 1000), (6 * 2**20 + 1, 0, 2**20), (5, 2**19 + 1, 2**18)):
        lengths = [number + (not GROUP.uses_numpy) for number in numbers[: GROUP.world_size]]
        values = np.random.default_rng(GROUP.rank).standard_normal(sum(lengths)).astype(np.float32)
        for dtype in (np.float32, np.float16):
            summed, buffer = (buffer_of(values.astype(dtype)) for _ in range(2))
            work = GROUP.reduce_scatter(buffer, lengths)
            GROUP.all_reduce(summed).wait()
            work.wait()
            expected = np.split(values_of(summed), np.cumsum(lengths)[:-1])[GROUP.rank]
            part = values_of(buffer)[:0] if work.part is None else values_of(work.part)
            assert part.tobytes() == expected.tobytes(), f"{lengths} {dtype}"


@check
def memory_of_its_own_is_summed_with_the_same_bits():
    if GROUP.uses_numpy:
        values = np.random.default_rng(GROUP.rank).standard_normal(100_003).astype(np.float32)
        parts, buffer = [100_000, 0, 3][: GROUP.world_size], buffer_of(values)
        works = [GROUP.all_reduce(buffer), GROUP.reduce_scatter(values[: sum(parts)].copy(), parts)]
        GROUP.all_reduce(values).wait()
        for work in works:
            work.wait()
        begin = sum(parts[: GROUP.rank])
        np.testing.assert_array_equal(buffer, values)
        if works[1].part is not None:
            np.testing.assert_array_equal(works[1].part, values[begin : begin + parts[GROUP.rank]])


@check
def what_a_view_of_a_sum_holds_stays():
    if GROUP.uses_numpy:
        kept = []
        for number in range(40):
            buffer = buffer_of(np.full(300_000, number + GROUP.rank, np.float32))
            GROUP.all_reduce(buffer).wait()
            kept.append(mindspore.Tensor.from_numpy(buffer[number : number + 100].reshape(10, 10)))
            del buffer
            kept[number - number % 7] = kept[number]  # others are let go
        for number in range(0, 40, 7):
            latest = min(number + 6, 39)
            np.testing.assert_array_equal(kept[number].asnumpy(), latest * GROUP.world_size + SUM_OF_RANKS)


@check
def memory_of_other_ranks_is_known():
    before = GROUP.borrowed_bytes
    buffer = buffer_of(np.ones(2**22, np.float32))
    GROUP.all_reduce(buffer).wait()
    of_parts = (GROUP.world_size - 1) * 2**24 // GROUP.world_size
    assert GROUP.borrowed_bytes == 0 or of_parts <= GROUP.borrowed_bytes <= before + of_parts + 2**16
    assert (GROUP.borrowed_bytes > 0) == GROUP.adds_by_tree


@check
def a_slow_rank_finds_what_it_adds_up():
    if GROUP.uses_numpy:
        for number in range(1100):  # more than may be under way
            if number % 400 == 399:
                time.sleep(0.05 * GROUP.rank)
            buffer = buffer_of(np.full(number % 50, number + GROUP.rank, np.float32))
            GROUP.all_reduce(buffer).wait()
            np.testing.assert_array_equal(buffer, number * GROUP.world_size + SUM_OF_RANKS)


@check
def more_sums_than_may_be_under_way():
    if GROUP.uses_numpy:
        buffers = [buffer_of(np.full(3, number + GROUP.rank, np.float32)) for number in range(1500)]
        works = [GROUP.all_reduce(buffer) for buffer in buffers]
        for number, (buffer, work) in enumerate(zip(buffers, works)):
            work.wait()
            np.testing.assert_array_equal(buffer, number * GROUP.world_size + SUM_OF_RANKS)


@check
def several_all_reduces_may_be_under_way():
    lengths = (50_000, 6 * 2**20 + 1, 1, 2**20, 50_000)
    buffers = [buffer_of(np.full(length, number + GROUP.rank, np.float32)) for number, length in enumerate(lengths)]
    works = [GROUP.all_reduce(buffer) for buffer in buffers]
    for work in works:
        work.progress()
    for number, (buffer, work) in enumerate(zip(buffers, works)):
        work.wait()
        np.testing.assert_array_equal(values_of(buffer), number * GROUP.world_size + SUM_OF_RANKS)


@check
def all_reduce_starts_while_a_late_rank_is_elsewhere():
    if GROUP.rank == 1:
        time.sleep(0.5)
    buffer = buffer_of(np.ones(10, np.float32))
    began = time.monotonic()
    work = GROUP.all_reduce(buffer)
    assert time.monotonic() - began < 0.3 or not GROUP.uses_numpy, "starting must not wait for the others"
    work.wait()
    np.testing.assert_array_equal(values_of(buffer), GROUP.world_size)


@check
def all_gather_keeps_the_order_of_ranks():
    for dtype in ("float32", "float16", "bfloat16"):
        for length in (1, 1000, 2**20 + 1):
            values = mindspore.Tensor(np.arange(length) % 7 + 7 * GROUP.rank, dtype=getattr(mindspore, dtype))
            whole = GROUP.all_gather(values.asnumpy() if GROUP.uses_numpy else values)
            expected = np.concatenate([np.arange(length) % 7 + 7 * rank for rank in range(GROUP.world_size)])
            gathered = whole if GROUP.uses_numpy else whole.astype(mindspore.float32).asnumpy()
            np.testing.assert_array_equal(gathered.astype(np.float32), expected, err_msg=f"{dtype} {length}")


@check
def broadcast_overwrites_any_dtype():
    for dtype in ("float32", "float16", "bfloat16", "int32", "int64", "uint8", "bool_"):
        for shape in ((), (5,), (3, 4)):
            source = GROUP.world_size - 1
            values = np.full(shape, GROUP.rank + 1 if dtype != "bool_" else GROUP.rank == source)
            tensor = mindspore.Tensor(values, dtype=getattr(mindspore, dtype))
            GROUP.broadcast(tensor, src=source)
            received = tensor.astype(mindspore.float32).asnumpy()
            expected = 1 if dtype == "bool_" else source + 1
            np.testing.assert_array_equal(received, np.full(shape, expected), err_msg=f"{dtype} {shape}")


@check
def broadcast_changes_a_parameter_that_is_used_already():
    from mindnlp.core import nn, ops

    parameter = nn.Parameter(ops.ones(4, 3) * (GROUP.rank + 2))
    ops.matmul(parameter, ops.ones(3, 2)).asnumpy()
    GROUP.broadcast(parameter)
    np.testing.assert_array_equal(ops.matmul(parameter, ops.ones(3, 2)).asnumpy(), np.full((4, 2), 6.0))


@check
def all_gather_object_keeps_the_order_of_ranks():
    mine = {"rank": GROUP.rank, "text": "x" * (10 ** (GROUP.rank + 1)), "array": np.arange(GROUP.rank)}
    gathered = GROUP.all_gather_object(mine)
    assert [item["rank"] for item in gathered] == list(range(GROUP.world_size))
    assert [len(item["array"]) for item in gathered] == list(range(GROUP.world_size))
    assert [len(item["text"]) for item in gathered] == [10 ** (rank + 1) for rank in range(GROUP.world_size)]


@check
def broadcast_object_gives_all_the_same():
    assert dp.broadcast_object({"from": GROUP.rank}, src=1) == {"from": 1}


@check
def barrier_waits_for_the_last():
    GROUP.barrier()
    if GROUP.rank == 0:
        time.sleep(0.5)
    arrived = time.time()
    GROUP.barrier()
    left = time.time()
    assert left >= max(GROUP.all_gather_object(arrived)) - 0.01


@check
def main_process_first_lets_rank_0_work_alone():
    path = Path(sys.argv[1]) / "made_by_rank_0"
    with dp.main_process_first():
        if dp.is_main_process():
            time.sleep(0.3)
            path.touch()
        assert path.exists()
    dp.barrier()


def what_a_child_sees():
    from mindnlp.engine import Trainer  # needs the bridges

    return dp.get_world_size(), hasattr(Trainer.update_gradient_by_distributed_type, "__wrapped__")


@check
def children_of_a_rank_are_alone():
    assert what_a_child_sees() == (GROUP.world_size, GROUP.world_size > 1)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(what_a_child_sees).result() == (1, False)


@check
def mindspore_communication_answers():
    from mindspore.communication import get_group_size, get_rank, init

    init()
    assert get_rank() == GROUP.rank and get_group_size() == GROUP.world_size


def run_checks(group):
    """For each check, None or the traceback with which it failed on this rank."""
    global GROUP
    GROUP = group
    outcome = {}
    for name, function in CHECKS.items():
        try:
            function()
            outcome[name] = None
        except Exception:
            outcome[name] = traceback.format_exc()
        failed = [rank for rank, failure in enumerate(GROUP.all_gather_object(outcome[name])) if failure]
        dp.print_rank_0(name, "failed on" if failed else "ok", *failed)
    return outcome
