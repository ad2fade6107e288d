"""The signals by which batch systems say that a job's time is over."""

import signal

PREEMPTING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
SAME_REQUEST_S = 0.5  # `timeout` and Slurm send a signal twice, or to launcher and ranks alike


def ignore_preemption() -> None:
    """For a process that has nothing to bring to an end, and without which others could not."""
    for signum in PREEMPTING:
        signal.signal(signum, signal.SIG_IGN)
