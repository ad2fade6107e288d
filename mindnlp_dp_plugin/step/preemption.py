"""Stop training in good order when a batch system says that its time is over.

A rank notes the signal. The ranks agree on the optimizer step after which they stop, by the numbers they poll before
each step anyway, write a checkpoint there, and end with status 128 + the signal's number.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence

from mindnlp_dp_plugin.errors import Preempted
from mindnlp_dp_plugin.job.signals import PREEMPTING, SAME_REQUEST_S
from mindnlp_dp_plugin.language import tr

logger = logging.getLogger(__name__)

_hearing: list["Preemption"] = []  # those of other threads than the main one
_asked: list[Callable[[], bool]] = []


def hear_for_other_threads() -> None:
    """Let signals end trainings in other threads in good order, too. Call it in the main thread: it alone hears them.

    Whoever hears a signal while none trains is who did before.
    """
    before = {signum: signal.getsignal(signum) for signum in PREEMPTING}

    def hear(signum, frame):
        if _hearing:
            for preemption in _hearing:
                preemption.note(signum)
        elif callable(before[signum]):
            before[signum](signum, frame)
        else:
            _end_by(signum)

    for signum, handler in before.items():
        if handler not in (signal.SIG_IGN, None):
            signal.signal(signum, hear)


def ask(is_over: Callable[[], bool]) -> None:
    """Let a system that sends no signals say that a rank's time is over: each step asks, and takes it for SIGTERM."""
    _asked.append(is_over)


def _end_by(signum):
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


class Preemption:
    """From ``begin`` to ``end``, a signal that asks for the end of training is noted. A second one ends the process.

    A handler of the script is called, too; what it raises is held back until the checkpoint is written.

    Attributes:
        agreed: The signal by which all ranks stop after this optimizer step; None while they go on.
    """

    def __init__(self):
        self.agreed: signal.Signals | None = None
        self._noted: dict[int, float] = {}
        self._previous = {}
        self._held: BaseException | None = None

    def begin(self) -> None:
        """Note signals from now on; not in the main thread, those that ``hear_for_other_threads`` hears."""
        self._process = os.getpid()
        if threading.current_thread() is not threading.main_thread():
            _hearing.append(self)
            return
        for signum in PREEMPTING:
            if signal.getsignal(signum) not in (signal.SIG_IGN, None):  # None: native code has taken it
                self._previous[signum] = signal.signal(signum, self._note)

    def end(self) -> None:
        """Leave signals as they were found."""
        if self in _hearing:
            _hearing.remove(self)
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        self._previous = {}

    def votes(self) -> list[bool]:
        """Which signals have come to this rank."""
        if any(is_over() for is_over in _asked):
            self._noted.setdefault(signal.SIGTERM, time.monotonic())
        return [signum in self._noted for signum in PREEMPTING]

    def count(self, votes: Sequence[int]) -> None:
        """Take the number of ranks that each signal has come to, the same on all ranks."""
        self.agreed = next((signum for signum, num in zip(PREEMPTING, votes) if num), self.agreed)

    def stop(self, step: int, checkpoint: str) -> None:
        """End this process, when the checkpoint is written.

        Raises:
            Preempted: Always, unless a handler of the script has raised something else.
        """
        known = {"signal": self.agreed.name, "step": step, "checkpoint": checkpoint}
        words = tr("stopped by {signal} after step {step}, which {checkpoint} holds", **known)
        logger.warning(tr("Training was stopped by {signal} after step {step}, which {checkpoint} holds", **known))
        raise self._held or Preempted(self.agreed, words)

    def note(self, signum: int) -> bool:
        """Note a signal; returns whether it is the first of its kind. If the user insists, it ends this process."""
        is_new = signum not in self._noted
        is_insisting = any(time.monotonic() - noted > SAME_REQUEST_S for noted in self._noted.values())
        if os.getpid() != self._process or is_insisting:  # a child, which inherits handlers; or the user insists
            _end_by(signum)
            return False
        self._noted.setdefault(signum, time.monotonic())
        return is_new

    def _note(self, signum, frame):
        if self.note(signum) and callable(self._previous[signum]):
            try:
                self._previous[signum](signum, frame)
            except BaseException as error:
                self._held = error
