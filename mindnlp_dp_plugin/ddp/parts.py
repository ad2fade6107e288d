"""Cut a bucket into parts, one per rank."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import mindspore

from mindnlp_dp_plugin.ddp import host_memory


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


def cut(sizes: Sequence[int], num_parts: int) -> list[list[Extent]]:
    """Cut the parameters of a bucket, one after the other, into parts as equal as runs of ``RUN`` elements allow.

    A parameter is cut between the runs over which its squares are summed, so that a rank can sum those of its part, and
    all ranks together have the sums that one has of the whole.

    Args:
        sizes: Elements of each parameter; none has to divide.
        num_parts: How many parts.

    Returns:
        The extents of each part, in order; each element is in exactly one.
    """
    total = sum(sizes)
    borders = [_nearest(sizes, part * total // num_parts) for part in range(num_parts)] + [total]
    parts, first = [[] for _ in range(num_parts)], 0
    for index, size in enumerate(sizes):
        for part, (begin, end) in enumerate(itertools.pairwise(borders)):
            low, high = max(begin, first), min(end, first + size)
            if low < high:
                parts[part].append(Extent(index, low - first, high - first, low - begin))
        first += size
    return parts


def lengths_of(parts: Sequence[Sequence[Extent]]) -> list[int]:
    """Elements in each part."""
    return [sum(extent.end - extent.begin for extent in part) for part in parts]


def _nearest(sizes, place):
    """The place next to this one where a parameter may be cut, or begins or ends."""
    first = 0
    for size in sizes:
        if place < first + size:
            return first + min(size, round((place - first) / host_memory.RUN) * host_memory.RUN)
        first += size
    return first
