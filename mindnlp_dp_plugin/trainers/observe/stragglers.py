"""Name ranks whose own work takes longer than the others'."""

import logging
import socket
import statistics
from collections import Counter

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.language import Message, tr

logger = logging.getLogger(__name__)

WINDOW = 50  # optimizer steps between comparisons
SLOW = 1.2  # times what the median rank takes
STEADY = 3  # windows in a row; on a busy machine ranks are slow by turns, and nobody can do anything about it


class StragglerMonitor:
    """Compares, every ``WINDOW`` optimizer steps, what ranks take for their own work.

    That is data, forward, backward and the optimizer. Waiting for others, logging, evaluations and saves do not count.
    A rank's time is its median over the window. It is named once, when it was slow in ``STEADY`` windows in a row.

    Args:
        collective: The ranks that train together.

    Attributes:
        slowest: What the slowest rank took in the last window, in times of the median rank; None before the first.
    """

    def __init__(self, collective: Collective):
        self._collective = collective
        self._own, self._num_windows = [], 0
        self._num_slow, self._in_a_row, self._named = Counter(), Counter(), set()
        self.slowest: float | None = None

    def add(self, seconds: float, step: int) -> None:
        """A step took so long on this rank; at the end of a window compare it with others'."""
        self._own.append(seconds)
        if len(self._own) < WINDOW:
            return
        own, self._own = (statistics.median(self._own), socket.gethostname()), []
        everyone = self._collective.all_gather_object(own, Message("seconds of own work"))
        typical = statistics.median_low(seconds for seconds, _ in everyone)
        self.slowest = max(everyone)[0] / typical
        self._num_windows += 1
        for rank, (seconds, node) in enumerate(everyone):
            place = rank, node
            is_slow = seconds >= SLOW * typical
            self._num_slow[place] += is_slow
            self._in_a_row[place] = self._in_a_row[place] + 1 if is_slow else 0
            if self._in_a_row[place] >= STEADY and place not in self._named:
                self._named.add(place)
                self._name(rank, node, step, seconds, typical)

    def _name(self, rank, node, step, seconds, typical):
        if self._collective.rank:
            return
        logger.warning(
            tr(
                "Steps {first} to {last}: rank {rank} on {node} takes {seconds:.3g} s a step for its own work, "
                "{times:.2f} times what the median rank takes. All wait for it. Look there for another job, slow "
                "storage, a hot or throttled device, or longer rows.",
                first=step - STEADY * WINDOW + 1,
                last=step,
                rank=rank,
                node=node,
                seconds=seconds,
                times=seconds / typical,
            )
        )

    def summary(self) -> list[str]:
        """A line that names the ranks that were slow; none if none was."""
        ranks = [
            tr("rank {rank} on {node} in {num} of {all}", rank=rank, node=node, num=num, all=self._num_windows)
            for (rank, node), num in self._num_slow.items()
            if num
        ]
        line = tr(
            "slower than the median rank, in windows of {steps} steps: {ranks}", steps=WINDOW, ranks=", ".join(ranks)
        )
        return [line] if ranks else []
