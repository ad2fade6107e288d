"""Start processes that cannot outlive their launcher, and end whole process trees."""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import psutil

from mindnlp_dp_plugin.job.environments import VARIABLES
from mindnlp_dp_plugin.job.signals import end_with_parent, ignore_preemption, prctl
from mindnlp_dp_plugin.launch.job import Process
from mindnlp_dp_plugin.launch.signals import Signals

PR_SET_CHILD_SUBREAPER = 36
TERM_GRACE_S = 1.0
KILL_GRACE_S = 10  # a busy machine takes its time
POLL_S = 0.03
IGNORED = re.compile(r"^SigIgn:\s*([0-9a-f]+)$", re.MULTILINE)
EXIT_CODE_FIELD = 48  # of /proc/<pid>/stat, after the state


def start(process: Process) -> subprocess.Popen:
    """Start a process in its own session; it ends if this launcher dies, even by SIGKILL."""

    def prepare():
        end_with_parent(process.on_launcher_death)
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

    def end(self, signals: Signals) -> None:
        """End all: SIGTERM, then SIGKILL for those that remain after a second, or as soon as the user insists.

        Those that ignore SIGTERM get SIGKILL at once.
        """
        for member in self._living():
            _send(member, signal.SIGKILL if _ignores(member, signal.SIGTERM) else signal.SIGTERM)
        deadline = time.monotonic() + TERM_GRACE_S
        while self._living() and time.monotonic() < deadline and not signals.is_urgent:
            time.sleep(POLL_S)
        deadline = time.monotonic() + KILL_GRACE_S
        while (living := self._living()) and time.monotonic() < deadline:
            for member in living:
                _send(member, signal.SIGKILL)
            time.sleep(POLL_S)

    def _living(self) -> list[psutil.Process]:
        members = psutil.Process().children(recursive=True)
        return [member for member in members if member not in self._strangers and _is_alive(member)]


def is_running(pid: int) -> bool:
    """Whether the process exists and has not ended."""
    try:
        return _is_alive(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def returncode_of_zombie(pid: int) -> int | None:
    """How a process ended whose parent has not asked yet, as ``subprocess`` gives it; None if it is none."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return os.waitstatus_to_exitcode(int(fields[EXIT_CODE_FIELD])) if state == "Z" else None


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _ignores(process: psutil.Process, signum: int) -> bool:
    try:
        status = Path(f"/proc/{process.pid}/status").read_text(errors="replace")
    except OSError:
        return False
    return bool(int(IGNORED.search(status)[1], 16) >> (signum - 1) & 1)


def _send(process: psutil.Process, signum: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signum)
