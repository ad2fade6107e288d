"""Softmax along the last axis, in one pass over memory; DeBERTa's, which leaves places out, in two."""

import functools

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import (
    are_float32,
    array_of,
    can_be_repeated,
    rows_of,
    tensor_like,
    tensor_of,
)
from mindnlp_dp_plugin.cpu_operators.compiled import ONE, ZERO, compiled_sums, exponential, largest_of_rows
from mindnlp_dp_plugin.cpu_operators.operator import OnceDifferentiable
from mindnlp_dp_plugin.cpu_operators.scores import Scores
from mindnlp_dp_plugin.cpu_operators.threads import over_rows


def softmax(stock, input, dim=-1, *, dtype=None):
    """Softmax; a row of only -inf gives zeros with zero gradients."""
    if type(input) is Scores:
        return input.softmax(functools.partial(softmax, stock), dim, dtype)
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
        y = tensor_like(self.softmax_of(rows_of(input)), input)
        self.save_for_backward(y)  # so that MindSpore raises if it is written to before backward
        return y

    def softmax_of(self, x):
        """Of each row."""
        largest = largest_of_rows(x)
        largest[largest == -np.inf] = 0
        y = np.empty_like(x)
        over_rows(lambda rows: _shares(x[rows], largest[rows], y[rows]), x)
        return y

    def gradients(self, gradient):
        g, y = rows_of(gradient), rows_of(*self.saved_tensors)
        dx = np.empty_like(y)
        over_rows(lambda rows: _differentiate(g[rows], y[rows], dx[rows]), g)
        return (tensor_like(dx, gradient),)


class _MaskedSoftmax(_Softmax):
    def compute(self, input, mask):
        is_used = array_of(mask) != 0
        x = np.where(is_used, array_of(input), np.finfo(np.float32).min)
        y = self.softmax_of(np.ascontiguousarray(x).reshape(-1, x.shape[-1])).reshape(x.shape)
        y = tensor_of(np.multiply(y, is_used, out=y))
        self.save_for_backward(y)
        return y

    def gradients(self, gradient):
        return *super().gradients(gradient), None


@compiled_sums
def _shares(x, largest, y):
    num_rows, length = x.shape
    for row in range(num_rows):
        total = ZERO
        for i in range(length):
            y[row, i] = exponential(x[row, i] - largest[row])
            total += y[row, i]
        total = ONE if total == ZERO else total
        for i in range(length):
            y[row, i] /= total


@compiled_sums
def _differentiate(g, y, dx):
    num_rows, length = g.shape
    for row in range(num_rows):
        along = ZERO
        for i in range(length):
            along += g[row, i] * y[row, i]
        for i in range(length):
            dx[row, i] = (g[row, i] - along) * y[row, i]
