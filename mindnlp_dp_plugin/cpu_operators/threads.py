"""The threads that share the work of one operator, each on a core of its own."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mindnlp_dp_plugin.job import hardware

LEAST_NUMBERS = 2**19  # of a piece of what is computed number by number: a thread takes 0.1 ms to begin

_num_threads = 1
_pool = None


def share_among(number: int) -> None:
    """Let that many threads share the work from now on."""
    global _num_threads
    _num_threads = number


def number() -> int:
    """How many threads share the work."""
    return _num_threads


def pieces_of(array: np.ndarray) -> int:
    """Into how many pieces it pays to cut what is computed number by number."""
    return max(1, min(_num_threads, array.size // LEAST_NUMBERS))


def over_rows(compute: Callable[[slice], object], array: np.ndarray) -> None:
    """Call ``compute`` for pieces of an array's first axis, several at a time if it is large, and wait for all.

    Args:
        compute: What it computes of a row does not depend on the other rows.
        array: One of the arrays that it reads or writes.
    """
    in_parallel(compute, len(array), min(len(array), pieces_of(array)))


def in_parallel(compute: Callable[[slice], object], length: int, num_pieces: int) -> None:
    """Call ``compute`` for each of the equal pieces of ``range(length)``, several at a time, and wait for all.

    Each thread takes the next piece that is left. NumPy's warnings are set per thread: in new ones they are silenced.
    """
    ends = [length * piece // num_pieces for piece in range(num_pieces + 1)]
    parts = iter([slice(*pair) for pair in zip(ends, ends[1:])])

    def compute_what_is_left():
        with np.errstate(all="ignore"):
            for part in parts:
                compute(part)

    if num_pieces == 1 or _num_threads == 1:
        for part in parts:
            compute(part)
        return
    for thread in [_threads().submit(compute_what_is_left) for _ in range(min(_num_threads, num_pieces))]:
        thread.result()


def _threads():
    global _pool
    if _pool is None or _pool[0] != _num_threads:
        allowed = hardware.allowed_cores()
        cores = iter(allowed if len(allowed) == _num_threads else ())  # fewer threads would crowd the first cores
        _pool = _num_threads, ThreadPoolExecutor(_num_threads, "products", _stay_on_next, (cores,))
    return _pool[1]


def _stay_on_next(cores):
    """Linux may leave two threads that wake together on one core for as long as a product takes."""
    core = next(cores, None)
    if core is not None:
        os.sched_setaffinity(0, {core})


def _forget_threads():
    global _pool
    _pool = None


os.register_at_fork(after_in_child=_forget_threads)
