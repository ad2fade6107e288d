"""Start processes that cannot outlive their launcher, and end whole process trees."""

import contextlib
import os
import signal
import subprocess
import time

import psutil

from mindnlp_dp_plugin.job.environments import VARIABLES
from mindnlp_dp_plugin.job.signals import end_with_parent, ignore_preemption, prctl, stat_of
from mindnlp_dp_plugin.launch.job import Process
from mindnlp_dp_plugin.launch.signals import POLL_S

PR_SET_CHILD_SUBREAPER = 36
# Signals, and the seconds after each: a busy machine takes its time, and who is killed may just have started another.
ENDING = ((signal.SIGTERM, 1), (signal.SIGKILL, 5), (signal.SIGKILL, 5))
EXIT_CODE_FIELD = 49  # of those of stat_of


def start(process: Process) -> subprocess.Popen:
    """Start a process in its own session; it ends if this launcher dies, even by SIGKILL."""

    def prepare():
        end_with_parent(signal.SIGKILL)
        if process.outlives_preemption:
            ignore_preemption()

    inherited = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    with open(process.log, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as log:
        return subprocess.Popen(
            process.argv,
            env={**inherited, "PYTHONUNBUFFERED": "1", **process.environ},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=prepare,
        )


def reap_orphans(known: set[int]) -> None:
    """Reap orphaned children of ranks, so that they do not remain as zombies.

    Args:
        known: Processes that other code waits for.
    """
    with contextlib.suppress(ChildProcessError):  # there are no children
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if found.si_pid in known:
                return
            os.waitpid(found.si_pid, 0)


class ProcessTree:
    """All processes started from now on, including grandchildren whose parent is gone."""

    def __init__(self):
        prctl(PR_SET_CHILD_SUBREAPER, 1)  # orphans come to us, where they can be found
        self._strangers = set(psutil.Process().children(recursive=True))

    def end(self) -> None:
        """End all: SIGTERM, then SIGKILL for those that remain after a second."""
        for signum, seconds in ENDING:
            for member in self._living():
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.send_signal(signum)
            deadline = time.monotonic() + seconds
            while self._living() and time.monotonic() < deadline:
                time.sleep(POLL_S)

    def _living(self) -> list[psutil.Process]:
        members = psutil.Process().children(recursive=True)
        return [member for member in members if member not in self._strangers and is_running(member.pid)]


def is_running(pid: int) -> bool:
    """Whether the process exists and has not ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def returncode_of_zombie(pid: int) -> int | None:
    """How a process ended whose parent has not asked yet, as ``subprocess`` gives it; None if it is none."""
    fields = stat_of(pid)
    return os.waitstatus_to_exitcode(int(fields[EXIT_CODE_FIELD])) if fields and fields[0] == "Z" else None
