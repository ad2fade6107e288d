"""Rotary positions (Su et al., arXiv:2104.09864), where the first half of a head turns with the second.

MindSpore joins the halves number by number, and sums up the gradients of the two uses of a head in another order.
"""

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def rotate(stock, q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    """Queries and keys, turned by tables that have a row for each token."""
    if not _fit(q, k, cos, sin):
        return stock(q, k, cos, sin, position_ids, unsqueeze_dim)
    tables = [np.expand_dims(array_of(table), unsqueeze_dim) for table in (cos, sin)]
    return _Rotated.of(q, *tables), _Rotated.of(k, *tables)


def rotate_by_places(stock, q, k, cos, sin, position_ids, unsqueeze_dim=1):
    """Queries and keys, turned by tables that have a row for each place."""
    is_usual = isinstance(position_ids, mindspore.Tensor) and _fit(q, k, cos, sin)
    places = array_of(position_ids) if is_usual else np.empty(0)
    if not places.size or places.min() < 0 or places.max() >= len(cos):
        return stock(q, k, cos, sin, position_ids, unsqueeze_dim)
    tables = [np.expand_dims(array_of(table)[places], unsqueeze_dim) for table in (cos, sin)]
    return _Rotated.of(q, *tables), _Rotated.of(k, *tables)


def rotate_half(stock, x):
    """``(-b, a)`` of ``(a, b)`` along the last axis."""
    if not are_float32(x) or x.shape[-1] % 2:
        return stock(x)
    return _Rotated.of(x, np.float32([0]), np.float32([1]))


def _fit(*tensors):
    return are_float32(*tensors) and len({tensor.shape[-1] for tensor in tensors}) == 1 and not tensors[0].shape[-1] % 2


class _Rotated(Operator):
    """``x * cos + rotate_half(x) * sin``; what turns its gradient is the same with the halves of -sin exchanged."""

    def compute(self, input, cos, sin):
        self.cos, self.sin = cos, sin
        return tensor_of(_rotated(array_of(input), cos, sin))

    def gradients(self, gradient):
        back = -np.roll(self.sin, self.sin.shape[-1] // 2, -1)
        if self.is_differentiated_again():
            return _Rotated.of(gradient, self.cos, back), None, None
        return tensor_of(_rotated(array_of(gradient), self.cos, back)), None, None


def _rotated(x, cos, sin):
    half = x.shape[-1] // 2
    of_a, of_b = sin[..., :half], sin[..., -half:]
    y = np.multiply(x, cos, order="K")
    y[..., :half] -= x[..., half:] * of_a
    y[..., half:] += x[..., :half] * of_b
    return y
