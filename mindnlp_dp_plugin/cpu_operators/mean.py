"""Means of rows, as in RMSNorm."""

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, copied_in_order, order_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def mean(stock, input, dim=None, keepdim=False, *, dtype=None):
    """Along the last axis."""
    is_usual = are_float32(input) and dim in (-1, input.ndim - 1) and dtype is None
    return _Mean.of(input, bool(keepdim)) if is_usual else stock(input, dim, keepdim, dtype=dtype)


class _Mean(Operator):
    def compute(self, input, keepdim):
        array = array_of(input)
        self.shape, self.order = array.shape, order_of(array)
        return tensor_of(array.mean(-1, keepdims=keepdim))

    def gradients(self, gradient):
        column = (*self.shape[:-1], 1)
        if self.is_differentiated_again():
            return mindspore.ops.broadcast_to((gradient / self.shape[-1]).reshape(column), self.shape), None
        of_row = (array_of(gradient) / np.float32(self.shape[-1])).reshape(column)
        return tensor_of(copied_in_order(np.broadcast_to(of_row, self.shape), self.order)), None
