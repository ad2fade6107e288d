"""Tensors on the CPU as NumPy arrays and back, in the memory layout they have."""

import mindspore
import numpy as np


def are_float32(*tensors):
    """Whether all of them are."""
    return all(tensor.dtype == mindspore.float32 for tensor in tensors)


def array_of(tensor):
    """The numbers of a tensor, shared; those of a transposed one are copied, but not put into another order.

    MindSpore orders the numbers of a transposed tensor one by one, 20 times as slow as a copy.
    """
    if tensor.is_contiguous():
        return tensor.asnumpy()
    order = _outermost_first(tensor.stride())
    return tensor.permute(*order).asnumpy().transpose(np.argsort(order))


def rows_of(tensor):
    """Its numbers as rows of the length of its last axis, one after the other in memory."""
    return np.ascontiguousarray(array_of(tensor)).reshape(-1, tensor.shape[-1])


def tensor_of(array):
    """A tensor in the memory of an array, which may be transposed."""
    order = _outermost_first(array.strides)
    tensor = mindspore.Tensor.from_numpy(np.ascontiguousarray(array.transpose(order)))
    return tensor if order == sorted(order) else tensor.permute(*map(int, np.argsort(order)))


def _outermost_first(strides):
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])
