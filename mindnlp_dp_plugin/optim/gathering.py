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
