"""Softmax along the last axis, in one pass over memory."""

import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, blocks_of, rows_of, tensor_like
from mindnlp_dp_plugin.cpu_operators.operator import OnceDifferentiable


def softmax(stock, input, dim=-1, *, dtype=None):
    """Softmax; a row of only -inf gives zeros with zero gradients."""
    if dtype is not None or not are_float32(input) or dim not in (-1, input.ndim - 1):
        return stock(input, dim, dtype=dtype)
    return _Softmax.of(input)


class _Softmax(OnceDifferentiable):
    def compute(self, input):
        x = rows_of(input)
        self.y = np.empty_like(x)
        for block in blocks_of(x):
            largest = x[block].max(-1, keepdims=True)
            largest[largest == -np.inf] = 0
            y = np.exp(x[block] - largest)
            total = y.sum(-1, keepdims=True)
            total[total == 0] = 1
            np.divide(y, total, out=self.y[block])
        return tensor_like(self.y, input)

    def gradients(self, gradient):
        g, dx = rows_of(gradient), np.empty_like(self.y)
        for block in blocks_of(g):
            along = np.einsum("ij,ij->i", g[block], self.y[block])
            np.multiply(g[block] - along[:, None], self.y[block], out=dx[block])
        return (tensor_like(dx, gradient),)
