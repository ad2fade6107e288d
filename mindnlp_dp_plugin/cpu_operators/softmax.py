"""Softmax along the last axis, in one pass over memory; DeBERTa's, which leaves places out, in two."""

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import (
    are_float32,
    array_of,
    blocks_of,
    can_be_repeated,
    rows_of,
    tensor_like,
    tensor_of,
)
from mindnlp_dp_plugin.cpu_operators.operator import OnceDifferentiable


def softmax(stock, input, dim=-1, *, dtype=None):
    """Softmax; a row of only -inf gives zeros with zero gradients."""
    if dtype not in (None, mindspore.float32) or not are_float32(input) or dim not in (-1, input.ndim - 1):
        return stock(input, dim, dtype=dtype)
    return _Softmax.of(input)


def masked_softmax(stock, self, input, mask):
    """DeBERTa's ``XSoftmax`` over the places where the mask is not 0; zeros elsewhere."""
    is_usual = are_float32(input) and self.dim in (-1, input.ndim - 1) and can_be_repeated(input.shape, mask.shape)
    if not is_usual or mask.ndim > input.ndim or not mask.size:
        return stock(self, input, mask)
    return _MaskedSoftmax.of(input, mask)


class _Softmax(OnceDifferentiable):
    def compute(self, input):
        self.y = self.softmax_of(rows_of(input))
        return tensor_like(self.y, input)

    def softmax_of(self, x):
        """Of each row."""
        result = np.empty_like(x)
        for block in blocks_of(x):
            largest = x[block].max(-1, keepdims=True)
            largest[largest == -np.inf] = 0
            y = np.exp(x[block] - largest)
            total = y.sum(-1, keepdims=True)
            total[total == 0] = 1
            np.divide(y, total, out=result[block])
        return result

    def gradients(self, gradient):
        g, dx = rows_of(gradient), np.empty_like(self.y)
        for block in blocks_of(g):
            along = np.einsum("ij,ij->i", g[block], self.y[block])
            np.multiply(g[block] - along[:, None], self.y[block], out=dx[block])
        return (tensor_like(dx, gradient),)


class _MaskedSoftmax(_Softmax):
    def compute(self, input, mask):
        is_used = array_of(mask) != 0
        x = np.where(is_used, array_of(input), np.finfo(np.float32).min)
        y = self.softmax_of(np.ascontiguousarray(x).reshape(-1, x.shape[-1])).reshape(x.shape)
        self.y = np.multiply(y, is_used, out=y).reshape(-1, x.shape[-1])
        return tensor_of(y)

    def gradients(self, gradient):
        return *super().gradients(gradient), None
