"""Convert CPU tensors to NumPy arrays and back, in their memory layout."""

from collections.abc import Iterator

import mindspore
import numpy as np

from mindnlp_dp_plugin.ddp.host_memory import are_views

CPU = (1, 0)  # as DLPack names it
BLOCK = 2**15  # numbers; a few such arrays fit into a core's second-level cache


def are_float32(*values) -> bool:
    """Whether all are float32 tensors with an axis and an element; others use MindNLP's operators."""
    return _are_of(mindspore.float32, values)


def are_float16(*values) -> bool:
    """Whether all are float16 tensors with an axis and an element."""
    return _are_of(mindspore.float16, values)


def are_float32_or_16(*values) -> bool:
    """Whether all are float32, or all float16, tensors with an axis and an element."""
    return are_float32(*values) or are_float16(*values)


def _are_of(dtype, values):
    # MindSpore has one object for each dtype; to compare two takes it four times as long.
    return all(
        isinstance(value, mindspore.Tensor) and value.dtype is dtype and value.ndim and value.size for value in values
    )


def mask_of(tensor) -> np.ndarray:
    """A mask as an array, of which what is repeated stands in memory once."""
    once = tuple(slice(0, 1) if step == 0 else slice(None) for step in tensor.stride())
    return np.broadcast_to(tensor[once].asnumpy(), tensor.shape)


def widened(array: np.ndarray) -> np.ndarray:
    """An array as float32: in it BLAS multiplies, and sums of float16 lose nothing."""
    return array.astype(np.float32, copy=False)


def rounded(array: np.ndarray, dtype):
    """A tensor of an array's numbers in the precision of a NumPy dtype."""
    return tensor_of(array.astype(dtype, copy=False))


class _Strided:
    """What NumPy asks of memory that it is to share."""

    def __init__(self, tensor):
        self._tensor = tensor

    def __dlpack__(self, **options):
        return self._tensor.to_dlpack()

    def __dlpack_device__(self):
        return CPU


def array_of(tensor) -> np.ndarray:
    """A tensor's memory as an array, shared, to be read.

    MindSpore puts a transposed tensor into order one number at a time, 20 times as slow as a copy.
    """
    if tensor.is_contiguous():
        return tensor.asnumpy()
    if hasattr(tensor, "to_dlpack") and tensor.dtype != mindspore.bool_:
        return np.from_dlpack(_Strided(tensor))
    order = _outermost_first(tensor.stride())  # MindSpore 2.7 to 2.9: a transposed tensor at least is not reordered
    return tensor.permute(*order).asnumpy().transpose(np.argsort(order))


def rows_of(tensor) -> np.ndarray:
    """A tensor as contiguous rows along its last axis."""
    return np.ascontiguousarray(array_of(tensor)).reshape(-1, tensor.shape[-1])


def tensor_of(array):
    """A tensor that shares an array's memory; the array may be transposed."""
    order = _outermost_first(array.strides)
    tensor = mindspore.Tensor.from_numpy(np.asarray(array.transpose(order), order="C"))
    return tensor if order == sorted(order) else tensor.permute(*map(int, np.argsort(order)))


def tensor_like(values, like):
    """A tensor that shares an array's memory, in another tensor's shape."""
    return tensor_of(values.reshape(like.shape))


def order_of(array: np.ndarray) -> list[int]:
    """An array's axes as memory nests them, the outermost first."""
    return _outermost_first(array.strides)


def copied_in_order(array: np.ndarray, order: list[int]) -> np.ndarray:
    """A new array of the same numbers, whose axes memory nests in that order."""
    return np.array(array.transpose(order), order="C").transpose(np.argsort(order))


def differ_in_layout(left, right) -> bool:
    """Whether two float32 tensors, which can be repeated to a common shape, differ in shape or place in memory.

    Those that do not are what MindSpore is fast with.
    """
    if not are_float32(left, right) or not can_be_repeated(left.shape, right.shape):
        return False
    return left.shape != right.shape or not (left.is_contiguous() and right.is_contiguous())


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
    """Slices of an array that fit into the cache, for several operations on each before the next."""
    step = max(1, BLOCK // rows[0].size)
    return (slice(begin, begin + step) for begin in range(0, len(rows), step))


def _outermost_first(strides):
    return sorted(range(len(strides)), key=lambda axis: -strides[axis])


def shares_memory(tensor, array: np.ndarray) -> bool:
    """Whether what is written to the array that a tensor's ``asnumpy`` gave is in the tensor; of a view it is not."""
    return are_views() and tensor.data_ptr() == array.__array_interface__["data"][0]
