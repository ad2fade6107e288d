"""The stop signals of a launcher, also those of batch systems."""

import os
import signal
import time

from mindnlp_dp_plugin.job.signals import SAME_REQUEST_S

STOPPING = (
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGUSR1, signal.SIGUSR2,
)  # fmt: skip
POLL_S = 0.03
GRACE_S = 30  # as Slurm and Kubernetes give after SIGTERM
MARGIN_S = 2  # for the launcher to end after its ranks


def ignore_stop_signals() -> None:
    """For a process that is about to end, or that cleans up."""
    for signum in STOPPING:
        signal.signal(signum, signal.SIG_IGN)


class Interrupted(Exception):
    """The user has pressed Ctrl-C, and everything has ended."""


class Signals:
    """While entered, a stop signal is recorded instead of ending the launcher.

    A signal that is ignored, as by ``nohup`` or of a job in the background, stays ignored.

    Attributes:
        stop: The first stop signal received, or None.
        is_urgent: Whether another one has followed: the user does not want to wait.
    """

    def __enter__(self):
        self.stop = None
        self.is_urgent = False
        self._stopped_at = 0.0
        noted = [signum for signum in STOPPING if signal.getsignal(signum) is not signal.SIG_IGN]
        self._previous = {signum: signal.signal(signum, self._note) for signum in noted}
        return self

    def __exit__(self, *_):
        for signum, handler in self._previous.items():
            signal.signal(signum, handler)

    def sleep(self, seconds: float) -> bool:
        """Sleep until the time is over or a stop signal comes; returns whether the time is over."""
        deadline = time.monotonic() + seconds
        while self.stop is None and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, POLL_S))
        return self.stop is None

    def _note(self, signum, _frame):
        if self.stop is None:
            self.stop, self._stopped_at = signal.Signals(signum), time.monotonic()
        elif time.monotonic() - self._stopped_at > SAME_REQUEST_S:
            self.is_urgent = True


def seconds_of_grace(asked: float | None, signum: signal.Signals) -> float:
    """How long ranks may take to end by themselves after a signal that asks for it.

    ``sbatch --signal`` sends SIGUSR1 or SIGUSR2 some time before the limit, which Slurm tells each step. No system
    tells when SIGKILL follows SIGTERM.

    Args:
        asked: What ``--grace`` says; None if it is not given.
        signum: The signal.
    """
    if asked is not None:
        return asked
    ends = os.environ.get("SLURM_JOB_END_TIME", "")
    if signum == signal.SIGTERM or not ends.isdecimal():
        return GRACE_S
    return max(0, int(ends) - time.time() - MARGIN_S)
