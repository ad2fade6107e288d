"""Matrix products by the BLAS library that NumPy brings.

It takes transposed operands as they are; MindSpore puts their numbers into order first, which can take longer than the
product. Gradients get the memory layout of what they belong to, so that nothing has to be put into order then, either.
"""

import numpy as np
from mindspore.common._grad_function import _Function

from mindnlp_dp_plugin.cpu_operators import blas
from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, rows_of, tensor_of


def linear(stock, input, weight, bias=None):
    """A matrix product and a bias, where MindNLP takes ``Dense``."""
    if not are_float32(input, weight) or weight.ndim != 2 or not input.ndim:
        return stock(input, weight, bias)
    return _Linear.apply(input, weight, bias)


def matmul(stock, input, other):
    """One batched product, where ``ops.matmul`` first looks for what to broadcast."""
    if not (are_float32(input, other) and input.ndim > 2 and input.shape[:-2] == other.shape[:-2]):
        return stock(input, other)
    return _BatchedProduct.apply(input, other)


class _Linear(_Function):
    @staticmethod
    def forward(ctx, input, weight, bias):
        ctx.shape, ctx.rows, ctx.weight = input.shape, rows_of(input), array_of(weight)
        product = blas.product(ctx.rows, ctx.weight.T)
        if bias is not None:
            product += array_of(bias)
        return tensor_of(product.reshape(*input.shape[:-1], len(ctx.weight)))

    @staticmethod
    def backward(ctx, gradient):
        for_input, for_weight, for_bias = ctx.needs_input_grad
        g = rows_of(gradient)
        return (
            tensor_of(blas.product(g, ctx.weight).reshape(ctx.shape)) if for_input else None,
            tensor_of(blas.product(g.T, ctx.rows)) if for_weight else None,
            tensor_of(g.sum(0)) if for_bias else None,
        )


class _BatchedProduct(_Function):
    @staticmethod
    def forward(ctx, left, right):
        ctx.left, ctx.right = left, right = array_of(left), array_of(right)
        # Attention's values have rows in one piece, and its heads, if they are laid out alike, need no transposing.
        order = "K" if right.strides[-1] == right.itemsize else "C"
        product = np.empty_like(right, order=order, shape=(*left.shape[:-1], right.shape[-1]))
        return tensor_of(blas.batched_product(left, right, out=product))

    @staticmethod
    def backward(ctx, gradient):
        g = array_of(gradient)
        d_left, d_right = np.empty_like(ctx.left), np.empty_like(ctx.right)
        blas.batched_product(g, ctx.right.swapaxes(-1, -2), out=d_left)
        blas.batched_product(ctx.left.swapaxes(-1, -2), g, out=d_right)
        return tensor_of(d_left), tensor_of(d_right)
