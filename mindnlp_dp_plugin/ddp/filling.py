"""Which buckets there are, and how far they are filled."""

from collections.abc import Sequence
from typing import Any


class Layout:
    """Buckets, and where in them the gradient of each parameter goes.

    Args:
        plan: The parameters of each bucket, by their numbers.
        buckets: The buckets.

    Attributes:
        plan: The same.
        buckets: The same.
        place: The bucket of each parameter, and its place in that.
    """

    def __init__(self, plan: Sequence[Sequence[int]], buckets: list):
        self.plan, self.buckets = plan, buckets
        self.place = {i: (bucket, slot) for bucket, ids in enumerate(plan) for slot, i in enumerate(ids)}

    def filling(self) -> "Filling":
        """One of which nothing is filled."""
        return Filling(self)


class Filling:
    """The gradients of one average, as they come.

    Attributes:
        missing: How many each bucket lacks.
        num_started: Buckets that were full, and have been started or held.
        num_taken: Those of them whose averages were handed out.
        running: The latest sum that was started.
    """

    def __init__(self, layout: Layout):
        self._filled: set[int] = set()
        self._layout = layout
        self.missing = [len(indices) for indices in layout.plan]
        self.num_started = self.num_taken = 0
        self.running: Any = None

    def has(self, index: int) -> bool:
        """Whether the gradient of a parameter is there."""
        return index in self._filled

    def note(self, index: int) -> None:
        """The gradient of a parameter is there."""
        self._filled.add(index)
        self.missing[self._layout.place[index][0]] -= 1

    def absent(self) -> list[int]:
        """The parameters whose gradients are not there, in the order of buckets."""
        return [index for indices in self._layout.plan for index in indices if index not in self._filled]

    def next_full(self) -> Any:
        """The next bucket to start, if it is full; otherwise None. They start in their order."""
        number = self.num_started
        if number == len(self.missing) or self.missing[number]:
            return None
        self.num_started += 1
        return self._layout.buckets[number]
