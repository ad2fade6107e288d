"""Faults to order: at a moment of a job, one of its ranks dies.

``FAULTS`` in the environment lists them, ``moment:step:rank:way:delay`` separated by spaces; the n-th restart of the
job takes the n-th. ``way`` is a signal or ``exception``; ``delay`` is in seconds from the moment on. When it strikes,
the time is left in ``FAULT_FOLDER/struck_<restart>``.
"""

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

RESTART = os.environ.get("MINDNLP_DP_RESTART", "0")
RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("MS_NODE_ID") or 0)


class OrderedError(Exception):
    """The fault that was ordered."""


@dataclass
class Fault:
    moment: str
    step: int
    rank: int
    way: str
    delay: float

    def strike(self):
        if self.way == "exception":
            signal.signal(signal.SIGALRM, self._raise)
            signal.setitimer(signal.ITIMER_REAL, max(self.delay, 1e-4))
        elif self.delay:
            threading.Timer(self.delay, self._kill).start()
        else:
            self._kill()

    def _raise(self, *_):
        self._note()
        raise OrderedError(self.moment)

    def _kill(self):
        self._note()
        os.kill(os.getpid(), signal.Signals[self.way])

    def _note(self):
        Path(os.environ["FAULT_FOLDER"], f"struck_{RESTART}").write_text(repr(time.time()))


def ordered() -> Fault | None:
    faults = os.environ.get("FAULTS", "").split()
    if int(RESTART) >= len(faults):
        return None
    moment, step, rank, way, delay = faults[int(RESTART)].split(":")
    return Fault(moment, int(step), int(rank), way, float(delay))


FAULT = ordered()


def comes_to(moment, step=0):
    """This rank is at a moment: if a fault was ordered for it, that takes its course, once."""
    global FAULT
    if FAULT and (FAULT.moment, FAULT.step, FAULT.rank) == (moment, step, RANK):
        FAULT, due = None, FAULT
        due.strike()
