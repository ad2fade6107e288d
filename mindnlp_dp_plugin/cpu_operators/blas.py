"""Matrix products on all cores whose bits depend on shapes only.

A BLAS library divides a product by its number of threads, and another division rounds differently. So while these
operators are in use it computes in one thread, and the plugin's threads share the rows of a product, cut where the
library's kernels begin anew: such a cut changes no bit.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import threadpoolctl

from mindnlp_dp_plugin.job import hardware
from mindnlp_dp_plugin.patching import Replacements

GROUP = 48  # rows: OpenBLAS's kernels take 4, 8, 12, 16 or 24 at a time, and what is left over differently
MOST_GROUPS = 128  # of a piece: OpenBLAS begins anew after as many rows as fit into its buffer, which is more
LEAST_WORK = 2**24  # multiplications of a piece: a quarter of a millisecond or more

_num_threads = 1
_pool = None


def compute_in_pieces(replacements: Replacements) -> None:
    """Limit BLAS to one thread, and use its previous number of threads for the pieces.

    Args:
        replacements: Restores the threads of BLAS.
    """
    global _num_threads
    libraries = threadpoolctl.ThreadpoolController().select(user_api="blas")
    _num_threads = max((library.num_threads for library in libraries.lib_controllers), default=1)
    limits = libraries.limit(limits=1)
    replacements.on_undo(limits.restore_original_limits)


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``left @ right`` of two matrices, as a new array in C order."""
    num_rows = len(left)
    num_groups = -(-num_rows // GROUP)
    num_pieces = max(1, min(_num_threads, num_groups, left.size * right.shape[1] // LEAST_WORK))
    num_pieces = max(num_pieces, -(-num_groups // MOST_GROUPS))
    if num_pieces == 1:
        return left @ right
    result = np.empty((num_rows, right.shape[1]), left.dtype)

    def compute(groups):
        rows = slice(groups.start * GROUP, groups.stop * GROUP)
        np.matmul(left[rows], right, out=result[rows])

    in_parallel(compute, num_groups, num_pieces)
    return result


def batched_product(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
    """``left @ right`` of stacks of matrices of the same leading shape, written to ``out``.

    Each matrix of the stack is a separate product, so a cut between them changes no bit.
    """
    *stack, rows, inner = left.shape
    axis = int(np.argmax(stack))
    work = left.size * right.shape[-1]
    num_pieces = max(1, min(_num_threads, stack[axis], work // LEAST_WORK))

    def compute(part):
        at = (*[slice(None)] * axis, part)
        np.matmul(left[at], right[at], out=out[at])

    in_parallel(compute, stack[axis], num_pieces)
    return out


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
