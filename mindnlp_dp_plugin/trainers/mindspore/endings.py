"""Ranks that step on one averaged gradient end with one model: each decides its rate, and when it steps, by itself."""

import weakref
from typing import Any

from mindnlp_dp_plugin.ddp.replicas import digest
from mindnlp_dp_plugin.trainers.guard import Summed
from mindnlp_dp_plugin.trainers.mindspore.beginnings import parameters_of

NUM_WATCHED = 4  # parameters of an optimizer, the smallest: another step changes these, too


class Endings:
    """What optimizers have left behind their last step; what changes their parameters later is not compared.

    Args:
        summed: What the script has summed.
    """

    def __init__(self, summed: Summed):
        self._summed = summed
        self._keys, self._watched = weakref.WeakKeyDictionary(), weakref.WeakKeyDictionary()
        self._left: dict[tuple[int, int], list[int]] = {}

    def note(self, optimizer: Any) -> None:
        """An optimizer has stepped on gradients that the script has summed."""
        if optimizer not in self._keys:
            numbers = self._summed.numbers  # ranks sum together, though perhaps not all of them step
            self._keys[optimizer] = numbers, sum(begun_at == numbers for begun_at, _ in self._left)
            smallest = sorted((parameter for _, parameter in parameters_of(optimizer)), key=lambda each: each.size)
            self._watched[optimizer] = smallest[:NUM_WATCHED]
        self._left[self._keys[optimizer]] = list(map(digest, self._watched[optimizer]))

    def forget(self) -> None:
        """All ranks were told that they hold different models."""
        self._left.clear()

    def told(self) -> dict[tuple[int, int], list[int]]:
        """Digests, by what was summed when optimizers first stepped, and their order."""
        return self._left
