"""Attention's arithmetic on its scores: MindSpore takes 20 times as long for a division, or for shapes that differ."""

import mindspore
import numpy as np
from mindspore.common._grad_function import _Function

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, tensor_of


def __truediv__(stock, self, other):
    """By a number, to the same last bit."""
    if not (isinstance(other, (int, float)) and self.ndim and are_float32(self)):
        return stock(self, other)
    return _Quotient.apply(self, other)


def __add__(stock, self, other):
    """Of scores and a mask, a product and its bias, or whatever else has to be repeated, to the same last bit."""
    if not (isinstance(other, mindspore.Tensor) and are_float32(self, other) and _differ_but_fit(self, other)):
        return stock(self, other)
    return _Sum.apply(self, other)


def _differ_but_fit(self, other):
    """Whether one has to be repeated to the other's shape, or both to a third, and neither is empty or a scalar."""
    if self.shape == other.shape or not (self.size and other.size and self.ndim and other.ndim):
        return False
    return all(1 in pair or pair[0] == pair[1] for pair in zip(self.shape[::-1], other.shape[::-1]))


class _Sum(_Function):
    @staticmethod
    def forward(ctx, left, right):
        ctx.shapes = left.shape, right.shape
        with np.errstate(all="ignore"):
            return tensor_of(np.add(array_of(left), array_of(right), order="C"))

    @staticmethod
    def backward(ctx, gradient):
        # Arrays of their own, and no views: what a parameter gets as its gradient is written to in place.
        g = array_of(gradient)
        return tuple(
            tensor_of(_summed_to(shape, g)) if is_needed else None
            for shape, is_needed in zip(ctx.shapes, ctx.needs_input_grad)
        )


def _summed_to(shape, values):
    """What was repeated from ``shape`` is summed up to it again; a new array."""
    added = values.ndim - len(shape)
    repeated = [added + axis for axis, length in enumerate(shape) if length == 1 and values.shape[added + axis] != 1]
    axes = (*range(added), *repeated)
    if not axes:
        return np.array(values, order="C")
    with np.errstate(all="ignore"):
        return np.asarray(values.sum(axes, keepdims=True), order="C").reshape(shape)


class _Quotient(_Function):
    @staticmethod
    def forward(ctx, input, number):
        ctx.number = np.float32(number)
        return _divided(input, ctx.number)

    @staticmethod
    def backward(ctx, gradient):
        return _divided(gradient, ctx.number), None


def _divided(tensor, number):
    with np.errstate(all="ignore"):  # MindSpore says nothing of infinities, either
        return tensor_of(array_of(tensor) / number)
