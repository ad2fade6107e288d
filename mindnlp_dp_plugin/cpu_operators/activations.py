"""GELU, its approximation by tanh, and SiLU, in one pass over memory for the value and the slope.

Of float16 they are computed in float32: MindSpore takes ten times as long, and keeps three arrays instead of one.
"""

from functools import partial

import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32_or_16, array_of, blocks_of, tensor_like
from mindnlp_dp_plugin.cpu_operators.compiled import HALF, ONE, TWO, compiled, exponential
from mindnlp_dp_plugin.cpu_operators.operator import OnceDifferentiable
from mindnlp_dp_plugin.cpu_operators.threads import over_rows

DENSITY_AT_0 = np.float32((2 * np.pi) ** -0.5)
TWICE_DENSITY_AT_0, CUBE, THREE_CUBES = map(np.float32, ((2 / np.pi) ** 0.5, 0.044715, 3 * 0.044715))
# erfc(z) = t (C1 + t (C2 + ...)) exp(-z^2) with t = 1 / (1 + P z), for z >= 0, within 1.5e-7
# (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26). Here z is x by the root of 2.
P = np.float32(0.3275911 * 0.5**0.5)
C1, C2, C3, C4, C5 = map(np.float32, (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429))


def gelu(stock, input, approximate="none"):
    """X times the normal distribution's P(X <= x), exact or by tanh (Hendrycks and Gimpel, arXiv:1606.08415)."""
    if approximate not in FORMS or not are_float32_or_16(input):
        return stock(input, approximate)
    return _Activation.of(input, FORMS[approximate])


def silu(stock, input):
    """X times its sigmoid (Elfwing et al., arXiv:1702.03118), as gated products have it."""
    return _Activation.of(input, _by_sigmoid) if are_float32_or_16(input) else stock(input)


class _Activation(OnceDifferentiable):
    def compute(self, input, value_and_slope):
        x = array_of(input).reshape(-1)
        y, self.slope = np.empty_like(x), np.empty_like(x)
        form = value_and_slope if x.dtype == np.float32 else partial(_in_float32, value_and_slope)
        over_rows(lambda part: form(x[part], y[part], self.slope[part]), x)
        return tensor_like(y, input)

    def gradients(self, gradient):
        return tensor_like(array_of(gradient).reshape(-1) * self.slope, gradient), None


def _in_float32(value_and_slope, x, y, slope):
    for block in blocks_of(x):
        wide = x[block].astype(np.float32)
        results = np.empty_like(wide), np.empty_like(wide)
        value_and_slope(wide, *results)
        y[block], slope[block] = results


@compiled
def _exact(values, y, slope):
    for i in range(values.size):
        x = values[i]
        size = abs(x)
        t = ONE / (ONE + P * size)
        bell = exponential(-HALF * size * size)
        beyond = HALF * t * (C1 + t * (C2 + t * (C3 + t * (C4 + t * C5)))) * bell
        below = HALF + np.copysign(HALF - beyond, x)
        y[i] = x * below
        slope[i] = below + DENSITY_AT_0 * x * bell


@compiled
def _by_tanh(values, y, slope):
    for i in range(values.size):
        x = values[i]
        square = x * x
        t = ONE - TWO / (ONE + exponential(TWO * TWICE_DENSITY_AT_0 * x * (ONE + CUBE * square)))
        below = HALF + HALF * t
        y[i] = x * below
        slope[i] = below + HALF * TWICE_DENSITY_AT_0 * x * (ONE - t * t) * (ONE + THREE_CUBES * square)


@compiled
def _by_sigmoid(values, y, slope):
    for i in range(values.size):
        x = values[i]
        below = ONE / (ONE + exponential(-x))
        y[i] = x * below
        slope[i] = below + x * below * (ONE - below)


FORMS = {"none": _exact, "tanh": _by_tanh}
