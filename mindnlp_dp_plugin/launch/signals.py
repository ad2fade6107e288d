"""Signals the launcher waits for: the end of a child, and stop signals."""

import os
import select
import signal
import time

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signals:
    """While entered, a stop signal is recorded instead of ending the launcher, and any signal wakes ``wait``.

    Attributes:
        stop: The stop signal received, or None.
    """

    def __enter__(self):
        self.stop = None
        self._wakeup, sender = os.pipe2(os.O_NONBLOCK)
        self._previous_sender = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
        self._sender = sender
        noted = {*STOPPING, signal.SIGCHLD}
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # started by nohup
            noted.remove(signal.SIGHUP)
        self._previous = {signum: signal.signal(signum, self._note) for signum in noted}
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
        if signum in STOPPING and self.stop is None:
            self.stop = signal.Signals(signum)
