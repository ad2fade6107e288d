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
    """Of scores and a mask, or of what else has to be repeated to the other's shape, to the same last bit."""
    if not (isinstance(other, mindspore.Tensor) and are_float32(self, other)):
        return stock(self, other)
    return stock(_repeated_to(other.shape, self), _repeated_to(self.shape, other))


def _repeated_to(shape, tensor):
    """The tensor itself if it has that shape, no axis, or cannot be repeated to that shape."""
    mine = (1,) * (len(shape) - tensor.ndim) + tensor.shape
    can_be_repeated = len(mine) == len(shape) and all(
        wanted and length in (1, wanted) for length, wanted in zip(mine, shape)
    )
    if mine == shape or not tensor.ndim or not can_be_repeated:
        return tensor
    times = [wanted if length == 1 else 1 for length, wanted in zip(mine, shape)]
    return mindspore.ops.tile(tensor.reshape(mine), tuple(times))


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
