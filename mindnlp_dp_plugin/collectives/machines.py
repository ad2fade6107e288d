"""Sums over several machines: the ranks of each in memory that they share, and one rank of each with those of others.

What travels between machines is then one array for each, however many ranks it has.
"""

from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from mindnlp_dp_plugin.collectives.base import Work
from mindnlp_dp_plugin.collectives.windows import SUMMED, Windows, WindowWork, fence

SENT, TAKEN = 3, 4  # further numbers at the beginning of a rank's table
FIRST = 0  # of the ranks of a machine, the one that sends


class MachineWindows(Windows):
    """The windows of one of several machines.

    The sum of a machine's ranks is left in its first rank's array, which that sums with those of other machines' first
    ranks; then the others copy it.

    Args:
        ranks: The ranks of this machine.
        rank: This rank.
        all_gather_object: Gives each of them what all have. All must make windows together.
        between: Starts to sum an array with those of the other machines; of a first rank.

    Raises:
        OSError: On all ranks of the machine, if one has no memory to share, or cannot reach that of another.
    """

    writes_to_all = False

    def __init__(
        self, ranks: Sequence[int], rank: int, all_gather_object: Callable, between: Callable[[np.ndarray], Work]
    ):
        super().__init__(ranks, rank, all_gather_object)
        self._between = between
        self._to_send: deque[WindowWork] = deque()
        self._to_take: deque[WindowWork] = deque()
        self._sending: deque[tuple[int, Work]] = deque()

    def start(self, array, lengths=None):
        """As ``Windows.start``; each rank gets all of the sum."""
        work = super().start(array)
        self._to_take.append(work)
        if self.place == FIRST:
            self._to_send.append(work)
        return work

    def progress(self):
        """Do what is due. Never waits."""
        super().progress()
        while self._to_send and self._have_all(SUMMED, self._to_send[0].number):
            fence()
            work = self._to_send.popleft()
            self._sending.append((work.number, self._between(work.array)))
        while self._sending and self._sending[0][1].progress():
            fence()
            self._own[SENT] = self._sending.popleft()[0]
        while self._to_take and self._tables[FIRST][SENT] >= self._to_take[0].number:
            fence()
            work = self._to_take.popleft()
            if self.place != FIRST:
                work.array[...] = self.array_of(FIRST, work.number, work.array)
            fence()
            self._own[TAKEN] = work.number

    def is_finished(self, number):
        """Whether all ranks of this machine have the sum, so that its first rank may use the memory again."""
        self.progress()
        return self._have_all(TAKEN, number)
