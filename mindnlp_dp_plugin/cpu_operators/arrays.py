"""Tensors on the CPU as NumPy arrays and back, in the memory layout they have."""

from collections.abc import Iterator

import mindspore
import numpy as np

BLOCK = 2**15  # numbers: a few arrays of them fit into a core's second-level cache


def are_float32(*values) -> bool:
    """Whether all of them are tensors of float32 with an axis and an element; others go MindNLP's way."""
    return all(
        isinstance(value, mindspore.Tensor) and value.dtype == mindspore.float32 and value.ndim and value.size
        for value in values
    )


def array_of(tensor) -> np.ndarray:
    """The numbers of a tensor, shared; those of a transposed one are copied, but not put into another order.

    MindSpore orders the numbers of a transposed tensor one by one, 20 times as slow as a copy.
    """
    if tensor.is_contiguous():
        return tensor.asnumpy()
    order = _outermost_first(tensor.stride())
    return tensor.permute(*order).asnumpy().transpose(np.argsort(order))


def rows_of(tensor) -> np.ndarray:
    """Its numbers as rows of the length of its last axis, one after the other in memory."""
    return np.ascontiguousarray(array_of(tensor)).reshape(-1, tensor.shape[-1])


def tensor_of(array):
    """A tensor in the memory of an array, which may be transposed."""
    order = _outermost_first(array.strides)
    tensor = mindspore.Tensor.from_numpy(np.asarray(array.transpose(order), order="C"))
    return tensor if order == sorted(order) else tensor.permute(*map(int, np.argsort(order)))


def tensor_like(values, like):
    """A tensor in the memory of an array, in another tensor's shape."""
    return tensor_of(values.reshape(like.shape))


def can_be_repeated(shape, other) -> bool:
    """Whether two shapes can be repeated to a common one."""
    return all(1 in pair or pair[0] == pair[1] for pair in zip(shape[::-1], other[::-1]))


def summed_to(shape, values):
    """What was repeated from ``shape``, an array or a tensor, summed up to it again."""
    added = values.ndim - len(shape)
    repeated = [added + axis for axis, length in enumerate(shape) if length == 1 and values.shape[added + axis] != 1]
    axes = (*range(added), *repeated)
    return values.sum(axes).reshape(shape) if axes else values


def blocks_of(rows) -> Iterator[slice]:
    """Slices of an array that stay in the cache, for a few operations to be done to each before the next."""
    step = max(1, BLOCK // rows[0].size)
    return (slice(begin, begin + step) for begin in range(0, len(rows), step))


def _outermost_first(strides):
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])
