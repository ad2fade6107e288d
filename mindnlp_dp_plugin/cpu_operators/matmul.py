"""Products of matrices and of stacks of them by the BLAS library that NumPy brings.

``ops.matmul`` first looks for what to broadcast.

Gradients get the memory layout of what they belong to, so that nothing has to be put into order then, either.
"""

import functools

import numpy as np

from mindnlp_dp_plugin.cpu_operators import blas
from mindnlp_dp_plugin.cpu_operators.arrays import are_float32_or_16, array_of, rounded, rows_of, widened
from mindnlp_dp_plugin.cpu_operators.operator import Operator
from mindnlp_dp_plugin.cpu_operators.scores import Scores, are_scores


def matmul(stock, input, other):
    """One product for each pair of matrices in two stacks of the same shape; a single matrix is for all rows."""
    if type(input) is Scores:
        return input.product(stock, other)
    if are_scores(input, other):
        return Scores(functools.partial(matmul, stock), input, other)
    if not (are_float32_or_16(input, other) and input.ndim > 1 < other.ndim and input.shape[-1] == other.shape[-2]):
        return stock(input, other)
    if other.ndim == 2:
        return _RowsByMatrix.of(input, other)
    return _BatchedProduct.of(input, other) if input.shape[:-2] == other.shape[:-2] else stock(input, other)


class _RowsByMatrix(Operator):
    def compute(self, input, matrix):
        self.save_for_backward(input, matrix)  # so that MindSpore raises if one is written to before backward
        self.rows, self.matrix = rows_of(input), array_of(matrix)
        product = blas.product(widened(self.rows), widened(self.matrix))
        return rounded(product.reshape(*input.shape[:-1], matrix.shape[1]), self.rows.dtype)

    def gradients(self, gradient):
        input, matrix = self.saved_tensors
        if self.is_differentiated_again():
            g, rows = gradient.reshape(-1, gradient.shape[-1]), input.reshape(-1, input.shape[-1])
            return _RowsByMatrix.of(gradient, matrix.T), _RowsByMatrix.of(rows.T, g)
        g, dtype = widened(rows_of(gradient)), self.rows.dtype
        return (
            rounded(blas.product(g, widened(self.matrix).T).reshape(input.shape), dtype)
            if self.needs_gradient(0)
            else None,
            rounded(blas.product(widened(self.rows).T, g), dtype) if self.needs_gradient(1) else None,
        )


class _BatchedProduct(Operator):
    def compute(self, left, right):
        self.save_for_backward(left, right)  # so that MindSpore raises if one is written to before backward
        self.left, self.right = left, right = array_of(left), array_of(right)
        # Attention's values have contiguous rows; heads in the same layout need no transposing.
        order = "K" if right.strides[-1] == right.itemsize else "C"
        product = np.empty_like(right, np.float32, order, shape=(*left.shape[:-1], right.shape[-1]))
        return rounded(blas.batched_product(widened(left), widened(right), out=product), left.dtype)

    def gradients(self, gradient):
        left, right = self.saved_tensors
        if self.is_differentiated_again():
            return (
                _BatchedProduct.of(gradient, right.swapaxes(-1, -2)),
                _BatchedProduct.of(left.swapaxes(-1, -2), gradient),
            )
        g, dtype = widened(array_of(gradient)), self.left.dtype
        d_left, d_right = np.empty_like(self.left, np.float32), np.empty_like(self.right, np.float32)
        blas.batched_product(g, widened(self.right).swapaxes(-1, -2), out=d_left)
        blas.batched_product(widened(self.left).swapaxes(-1, -2), g, out=d_right)
        return rounded(d_left, dtype), rounded(d_right, dtype)
