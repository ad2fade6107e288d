"""Signals the launcher waits for: the end of a child, and stop signals, also those of batch systems."""

import os
import select
import signal
import time

from mindnlp_dp_plugin.job.signals import SAME_REQUEST_S

STOPPING = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip


def ignore_stop_signals() -> None:
    """For a process that is about to end, or that cleans up."""
    for signum in STOPPING:
        signal.signal(signum, signal.SIG_IGN)


_has_come: list[int] = []


def heed_ctrl_c() -> None:
    """Let the first Ctrl-C be Python's exception, and the second end the process, whoever swallows the first."""

    def interrupt(signum, frame):
        _has_come.append(signum)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, interrupt)


def was_interrupted() -> bool:
    """Whether Ctrl-C was pressed, though an import may have swallowed the exception."""
    return bool(_has_come)


class Interrupted(Exception):
    """The user has pressed Ctrl-C, and everything has ended."""


class Signals:
    """While entered, a stop signal is recorded instead of ending the launcher, and any signal wakes ``wait``.

    A signal that is ignored, as by ``nohup`` or of a job in the background, stays ignored.

    Attributes:
        stop: The first stop signal received, or None.
        is_urgent: Whether another one has followed: the user does not want to wait.
    """

    def __enter__(self):
        self.stop = signal.SIGINT if was_interrupted() else None
        self.is_urgent = False
        self._stopped_at = 0.0
        self._wakeup, sender = os.pipe2(os.O_NONBLOCK)
        self._previous_sender = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
        self._sender = sender
        noted = [signum for signum in STOPPING if signal.getsignal(signum) is not signal.SIG_IGN]
        self._previous = {signum: signal.signal(signum, self._note) for signum in (*noted, signal.SIGCHLD)}
        return self

    def __exit__(self, *_):
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._previous_sender)
        os.close(self._wakeup)
        os.close(self._sender)

    def wait(self, seconds: float) -> None:
        """Sleep until the next signal at most."""
        if select.select([self._wakeup], [], [], seconds)[0]:
            os.read(self._wakeup, 4096)

    def sleep(self, seconds: float) -> bool:
        """Sleep until the time is over or a stop signal comes; returns whether the time is over."""
        deadline = time.monotonic() + seconds
        while self.stop is None and (left := deadline - time.monotonic()) > 0:
            self.wait(left)
        return self.stop is None

    def _note(self, signum, _frame):
        if signum not in STOPPING:
            return
        if self.stop is None:
            self.stop, self._stopped_at = signal.Signals(signum), time.monotonic()
        elif time.monotonic() - self._stopped_at > SAME_REQUEST_S:
            self.is_urgent = True
