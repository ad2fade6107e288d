"""Batched products by the BLAS library that NumPy brings, where ``ops.matmul`` first looks for what to broadcast.

Gradients get the memory layout of what they belong to, so that nothing has to be put into order then, either.
"""

import numpy as np

from mindnlp_dp_plugin.cpu_operators import blas
from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def matmul(stock, input, other):
    """One product for each pair of matrices in two stacks of the same shape."""
    is_usual = are_float32(input, other) and input.ndim > 2 and input.shape[:-2] == other.shape[:-2]
    if not is_usual or input.shape[-1] != other.shape[-2]:
        return stock(input, other)
    return _BatchedProduct.of(input, other)


class _BatchedProduct(Operator):
    def compute(self, left, right):
        self.save_for_backward(left, right)  # MindSpore raises if one of them is written to before backward
        self.left, self.right = left, right = array_of(left), array_of(right)
        # Attention's values have rows in one piece, and its heads, if they are laid out alike, need no transposing.
        order = "K" if right.strides[-1] == right.itemsize else "C"
        product = np.empty_like(right, order=order, shape=(*left.shape[:-1], right.shape[-1]))
        return tensor_of(blas.batched_product(left, right, out=product))

    def gradients(self, gradient):
        left, right = self.saved_tensors
        if self.is_differentiated_again():
            return (
                _BatchedProduct.of(gradient, right.swapaxes(-1, -2)),
                _BatchedProduct.of(left.swapaxes(-1, -2), gradient),
            )
        g = array_of(gradient)
        d_left, d_right = np.empty_like(self.left), np.empty_like(self.right)
        blas.batched_product(g, self.right.swapaxes(-1, -2), out=d_left)
        blas.batched_product(self.left.swapaxes(-1, -2), g, out=d_right)
        return tensor_of(d_left), tensor_of(d_right)
