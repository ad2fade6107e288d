"""Matrix products on all cores whose bits depend on shapes only.

A BLAS library divides a product by its number of threads, and another division rounds differently. So while these
operators are in use it computes in one thread, and the plugin's threads share the rows of a product, cut where the
library's kernels begin anew: such a cut changes no bit.
"""

import numpy as np
import threadpoolctl

from mindnlp_dp_plugin.cpu_operators import threads
from mindnlp_dp_plugin.patching import Patches

GROUP = 48  # rows: OpenBLAS's kernels take 4, 8, 12, 16 or 24 at a time, and what is left over differently
MOST_GROUPS = 128  # of a piece: OpenBLAS begins anew after as many rows as fit into its buffer, which is more
LEAST_WORK = 2**24  # multiplications of a piece: a quarter of a millisecond or more


def compute_in_pieces(patches: Patches) -> None:
    """Limit BLAS to one thread, and use its previous number of threads for the pieces.

    Args:
        patches: Restores the threads of BLAS.
    """
    libraries = threadpoolctl.ThreadpoolController().select(user_api="blas")
    threads.share_among(max((library.num_threads for library in libraries.lib_controllers), default=1))
    limits = libraries.limit(limits=1)
    patches.on_undo(limits.restore_original_limits)


def product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """``left @ right`` of two matrices, as a new array in C order."""
    num_rows = len(left)
    num_groups = -(-num_rows // GROUP)
    num_pieces = max(1, min(threads.number(), num_groups, left.size * right.shape[1] // LEAST_WORK))
    num_pieces = max(num_pieces, -(-num_groups // MOST_GROUPS))
    if num_pieces == 1:
        return left @ right
    result = np.empty((num_rows, right.shape[1]), left.dtype)

    def compute(groups):
        rows = slice(groups.start * GROUP, groups.stop * GROUP)
        np.matmul(left[rows], right, out=result[rows])

    threads.in_parallel(compute, num_groups, num_pieces)
    return result


def batched_product(left: np.ndarray, right: np.ndarray, out: np.ndarray) -> np.ndarray:
    """``left @ right`` of stacks of matrices of the same leading shape, written to ``out``.

    Each matrix of the stack is a separate product, so a cut between them changes no bit.
    """
    *stack, rows, inner = left.shape
    axis = int(np.argmax(stack))
    work = left.size * right.shape[-1]
    num_pieces = max(1, min(threads.number(), stack[axis], work // LEAST_WORK))

    def compute(part):
        at = (*[slice(None)] * axis, part)
        np.matmul(left[at], right[at], out=out[at])

    threads.in_parallel(compute, stack[axis], num_pieces)
    return out
