"""GELU, its approximation by tanh, and SiLU, in one pass over memory for the value and the slope.

Of float16 they are computed in float32: MindSpore takes ten times as long, and keeps three arrays instead of one.
"""

import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32_or_16, array_of, blocks_of, tensor_like, widened
from mindnlp_dp_plugin.cpu_operators.operator import OnceDifferentiable

SQRT_HALF = 0.5**0.5
DENSITY_AT_0 = (2 * np.pi) ** -0.5
TWICE_DENSITY_AT_0, CUBE = (2 / np.pi) ** 0.5, 0.044715
# erfc(z) = t (C1 + t (C2 + ...)) exp(-z^2) with t = 1 / (1 + P z), for z >= 0, within 1.5e-7
# (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26).
P, C1, C2, C3, C4, C5 = 0.3275911, 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429


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
        for block in blocks_of(x):
            y[block], self.slope[block] = value_and_slope(widened(x[block]))
        return tensor_like(y, input)

    def gradients(self, gradient):
        return tensor_like(array_of(gradient).reshape(-1) * self.slope, gradient), None


def _exact(x):
    size = np.abs(x)
    t = 1 / (1 + P * SQRT_HALF * size)
    bell = np.exp(-0.5 * size * size)
    beyond = 0.5 * t * (C1 + t * (C2 + t * (C3 + t * (C4 + t * C5)))) * bell
    below = 0.5 + np.copysign(0.5 - beyond, x)
    return x * below, below + DENSITY_AT_0 * x * bell


def _by_tanh(x):
    square = x * x
    t = np.tanh(TWICE_DENSITY_AT_0 * x * (1 + CUBE * square))
    below = 0.5 + 0.5 * t
    return x * below, below + (0.5 * TWICE_DENSITY_AT_0) * x * (1 - t * t) * (1 + 3 * CUBE * square)


def _by_sigmoid(x):
    below = 1 / (1 + np.exp(-x))
    y = x * below
    return y, below + y * (1 - below)


FORMS = {"none": _exact, "tanh": _by_tanh}
