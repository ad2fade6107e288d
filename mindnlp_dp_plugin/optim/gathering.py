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
    """Stands for a whole tensor of states. Each is gathered once, in the order in which they are in ``state_dict``.

    Args:
        gathering: Gathers it.
        parameter: Whose state it is.
        name: Which state.
    """

    __class__ = mindspore.Tensor  # pickle compares it with the class of what it is given in its place

    def __init__(self, gathering: "Gathering", parameter, name: str):
        self._gathering, self._parameter, self._name = gathering, parameter, name

    def gather(self):
        """The tensor. All ranks must call it, or ``ShardedStates.send``."""
        return mindspore.Tensor.from_numpy(self._gathering.states_of(self._parameter)[self._name])


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


class Gathering:
    """Gathers whole states, a bucket at a time.

    Args:
        gather: Returns all states of the n-th bucket, whole, by parameter and name.
        buckets: The number of its bucket, by the identity of a parameter.
    """

    def __init__(self, gather: Callable[[int], dict[int, dict]], buckets: dict[int, int]):
        self._gather = gather
        self._buckets = buckets
        self._number, self._states = None, {}

    def states_of(self, parameter) -> dict[str, np.ndarray]:
        """Those of one parameter, by name. All ranks must call it."""
        number = self._buckets[id(parameter)]
        if number != self._number:
            self._states = {}
            self._number, self._states = number, self._gather(number)
        return self._states[id(parameter)]
