"""The turn of rotary positions: MindSpore puts each half of a head into order number by number, then joins them."""

import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def rotate_half(stock, x):
    """``(-b, a)`` of ``(a, b)`` along the last axis (Su et al., arXiv:2104.09864)."""
    if not are_float32(x) or x.shape[-1] % 2:
        return stock(x)
    return _Turn.of(x, 1)


class _Turn(Operator):
    def compute(self, input, sign):
        self.sign = sign
        return _turned(array_of(input), sign)

    def gradients(self, gradient):
        if self.is_differentiated_again():
            return _Turn.of(gradient, -self.sign), None
        return _turned(array_of(gradient), -self.sign), None


def _turned(x, sign):
    half = x.shape[-1] // 2
    turned = np.empty_like(x)
    np.multiply(x[..., half:], np.float32(-sign), out=turned[..., :half])
    np.multiply(x[..., :half], np.float32(sign), out=turned[..., half:])
    return tensor_of(turned)
