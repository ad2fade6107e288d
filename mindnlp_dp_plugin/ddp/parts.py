"""Cut a bucket into equal parts, one per rank."""

from collections.abc import Sequence
from typing import NamedTuple

import mindspore


class Extent(NamedTuple):
    """A run of elements of one parameter, within a rank's part of a bucket.

    Attributes:
        index: Which parameter of the bucket.
        begin: The first of its elements, in the parameter's own order.
        end: The one after the last.
        at: Where the run begins within the part.
    """

    index: int
    begin: int
    end: int
    at: int


def run_of(tensor, begin: int, end: int):
    """Elements of a tensor, in its order, as a tensor with one axis; on CPU they share its memory."""
    if mindspore.get_context("device_target") == "CPU":
        return mindspore.Tensor.from_numpy(tensor.asnumpy().reshape(-1)[begin:end])
    return tensor.reshape(-1)[begin:end].copy()


def part_length(sizes: Sequence[int], num_parts: int) -> int:
    """Elements in a part; the last parts may be padded to it.

    Args:
        sizes: Elements of each parameter of the bucket.
        num_parts: How many parts.
    """
    return -(-sum(sizes) // num_parts)


def cut(sizes: Sequence[int], num_parts: int) -> list[list[Extent]]:
    """Cut the parameters of a bucket, one after the other, into equal parts by element: no size has to divide.

    Args:
        sizes: Elements of each parameter.
        num_parts: How many parts.

    Returns:
        The extents of each part, in order; each element is in exactly one.
    """
    length = part_length(sizes, num_parts)
    parts, first = [[] for _ in range(num_parts)], 0
    for index, size in enumerate(sizes):
        begin = 0
        while begin < size:
            part, at = divmod(first + begin, length)
            end = min(size, begin + length - at)
            parts[part].append(Extent(index, begin, end, at))
            begin = end
        first += size
    return parts
