"""Loops over arrays as machine code, by numba: one pass over memory, where NumPy takes one for each operation.

What is ``compiled`` rounds after each operation of its formula, as NumPy does, so a number's bits depend neither on its
place nor on the processor. ``compiled_sums`` adds as many numbers at a time as the processor can: the bits of a sum
depend on its length and on the processor, not on its place.

numba keeps machine code in ``__pycache__``, or in the user's cache if that cannot be written to. The first run on a
machine compiles each loop that it uses, which takes a fraction of a second.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numba
import numpy as np
from numba.core.caching import FunctionCache

from mindnlp_dp_plugin.cpu_operators.threads import over_rows

ZERO, HALF, ONE, TWO = map(np.float32, (0, 0.5, 1, 2))  # a Python float would make float64 of float32
# exp(x) = 2^k exp(r) with r = x - k ln 2, and |r| <= ln(2) / 2 (Moshier's Cephes library, expf).
LEAST_EXPONENT, MOST_EXPONENT = map(np.float32, (-126, 127))
LEAST_NORMAL = np.float32(-87.33655)
LOG2_E, LN_2, REST_OF_LN_2 = map(np.float32, (1.44269504088896341, 0.693359375, -2.12194440e-4))
E2, E3, E4, E5, E6, E7 = map(
    np.float32, (0.50000001201, 0.16666665459, 4.1665795894e-2, 8.3334519073e-3, 1.3981999507e-3, 1.9875691500e-4)
)
BIAS, MANTISSA_BITS = np.int32(127), np.int32(23)
LEAST_INTEGER, SIGN_BIT, ALL_BUT_SIGN = np.int32(-(2**31)), np.int32(31), np.int32(2**31 - 1)

SOURCE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()


class _Cache(FunctionCache):
    """Machine code that cannot be read or kept, as of a damaged file or on a full disk, is compiled again."""

    def load_overload(self, sig, target_context):
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # numba unpickles whatever the file holds
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig, data):
        with suppress(Exception):
            super().save_overload(sig, data)

    def _index_key(self, sig, codegen):
        # numba looks at the file that holds a loop, not at this one, whose arithmetic is compiled into it.
        return *super()._index_key(sig, codegen), SOURCE


def compiled(loop: Callable) -> Callable:
    """A function of arrays that is compiled when it is first called. It lets other threads run."""
    return _compiled(loop)


def compiled_sums(loop: Callable) -> Callable:
    """A compiled function whose sums may be added up in another order."""
    return _compiled(loop, fastmath={"reassoc", "nsz"})


def _compiled(loop, **options):
    # A division by zero gives infinity, as in NumPy: numba's other model looks for it before each division.
    dispatcher = numba.njit(nogil=True, error_model="numpy", **options)(loop)
    with suppress(RuntimeError):  # there is no folder to write to
        dispatcher._cache = _Cache(loop)
    return dispatcher


@numba.njit(error_model="numpy", fastmath=False)
def exponential(x):
    """The exponential of a float32 within a compiled loop: 0 where it is subnormal.

    It is off by less than its last bit, and from 88.3 on, before it becomes infinite, by less than 1e-6 of it. In
    ``compiled_sums``, too, whose order is not its own: numba would hand it down.
    """
    # Compared this way round, so that NaN gives an exponent, too; the rest is NaN then.
    exponent = np.floor(x * LOG2_E + HALF)
    exponent = exponent if exponent < MOST_EXPONENT else MOST_EXPONENT
    exponent = exponent if exponent > LEAST_EXPONENT else LEAST_EXPONENT
    rest = x - exponent * LN_2 - exponent * REST_OF_LN_2
    series = E2 + rest * (E3 + rest * (E4 + rest * (E5 + rest * (E6 + rest * E7))))
    power_of_2 = np.int32((np.int32(exponent) + BIAS) << MANTISSA_BITS).view(np.float32)
    return ZERO if x < LEAST_NORMAL else (series * rest * rest + rest + ONE) * power_of_2


def largest_of_rows(x: np.ndarray) -> np.ndarray:
    """The largest number of each row of a float32 matrix."""
    largest = np.empty(len(x), np.float32)
    bits, of_largest = x.view(np.int32), largest.view(np.int32)
    over_rows(lambda rows: _largest_of_rows(bits[rows], of_largest[rows]), bits)
    return largest


@compiled
def _largest_of_rows(bits, largest):
    # A processor compares integers several at a time, floats only if none may be NaN. Apart from the sign, the bits of
    # floats are in the order of their size; flipped, those of negative ones are, too.
    num_rows, length = bits.shape
    for row in range(num_rows):
        most = LEAST_INTEGER
        for i in range(length):
            ordered = bits[row, i] ^ np.int32((bits[row, i] >> SIGN_BIT) & ALL_BUT_SIGN)
            most = ordered if ordered > most else most
        largest[row] = most ^ np.int32((most >> SIGN_BIT) & ALL_BUT_SIGN)
