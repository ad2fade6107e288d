"""Signals: names, those that say that a job's time is over, and the one that the kernel sends when a parent dies."""

import ctypes
import signal
import sys
from pathlib import Path

PREEMPTING = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
PR_SET_PDEATHSIG = 1
START_FIELD = 19  # of /proc/<pid>/stat, behind the name
SAME_REQUEST_S = 0.5  # `timeout` and Slurm send a signal twice, or to launcher and ranks alike

prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else lambda option, value: 0


def name_of(signum: int) -> str:
    """A signal's name; Python has none for most real-time signals, which are counted as ``kill -l`` does."""
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"SIGRTMIN+{signum - signal.SIGRTMIN}"


def start_of(pid: int) -> int | None:
    """When a process was started, as the kernel counts it since boot; None if there is none."""
    fields = stat_of(pid)
    return int(fields[START_FIELD]) if fields else None


def stat_of(pid: int) -> list[str]:
    """The fields of ``/proc/<pid>/stat`` behind the name, from the state on; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def end_with_parent(signum: int) -> None:
    """For ``preexec_fn``: let the kernel send the signal when the parent dies, even by SIGKILL."""
    prctl(PR_SET_PDEATHSIG, signum)


def ignore_preemption() -> None:
    """For a process that has nothing to bring to an end, and without which others could not."""
    for signum in PREEMPTING:
        signal.signal(signum, signal.SIG_IGN)
