"""Whole states of which each rank keeps slices, gathered when they are asked for."""

from collections.abc import Callable
from typing import NamedTuple

import mindspore
import numpy as np


class Cut(NamedTuple):
    """Stands for a tensor of which each rank keeps a slice.

    Attributes:
        dtype: The name of its dtype in NumPy.
    """

    dtype: str


class LazyTensor:
    """Stands for a whole tensor of states. All are gathered, in the order in which they are in ``state_dict``.

    Args:
        gather: Returns its values; a collective.
    """

    __class__ = mindspore.Tensor  # pickle compares it with the class of what it is given in its place

    def __init__(self, gather: Callable[[], np.ndarray]):
        self._gather = gather

    def gather(self) -> mindspore.Tensor:
        """The tensor. All ranks must call it, or ``ShardedStates.send``."""
        return mindspore.Tensor.from_numpy(self._gather())


class StoredTensor:
    """Stands for a tensor in a file, of which a rank reads the part that it keeps.

    Args:
        path: The file.
        place: Where its first byte is.
        stored_as: The dtype in which it is there.
        shape: Its shape.
        dtype: The dtype that it has; None for the same.
    """

    __class__ = mindspore.Tensor  # an optimizer is to load it as one

    def __init__(self, path: str, place: int, stored_as: np.dtype, shape: tuple, dtype: np.dtype | None = None):
        self._path, self._place, self._stored_as = path, place, np.dtype(stored_as)
        self.shape, self._dtype = shape, np.dtype(dtype or stored_as)

    def to(self, dtype) -> "StoredTensor":
        """The same in another dtype."""
        return StoredTensor(self._path, self._place, self._stored_as, self.shape, mindspore.dtype_to_nptype(dtype))

    def run(self, begin: int, end: int) -> np.ndarray:
        """Its elements from ``begin`` to ``end``, flat."""
        place = self._place + begin * self._stored_as.itemsize
        values = np.fromfile(self._path, self._stored_as, end - begin, offset=place)
        return values.astype(self._dtype, copy=False)
