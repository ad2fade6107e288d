"""Python stacks of a rank, written by a signal handler that needs no help from the interpreter."""

import faulthandler
import functools
import os
import re
import signal
import time
from contextlib import suppress
from pathlib import Path

SIGNAL = signal.SIGRTMAX - 3  # common signals belong to the user's script and to batch systems
TIMEOUT_S = 0.5
NOT_SHOWN = ('"<frozen importlib', '"<frozen runpy>"', "mindnlp_dp_plugin/runtime/worker.py")
WATCHDOG = re.compile(r'collectives/watchdog\.py", line \d+ in run$', re.MULTILINE)


@functools.cache
def answer_for_stacks(folder: Path, rank: int) -> None:
    """Let this process write the Python stacks of all its threads on request."""
    descriptor = os.open(_path(folder, rank), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    faulthandler.register(SIGNAL, file=descriptor, all_threads=True)


def ask_for_stacks(folder: Path, pids: dict[int, int]) -> dict[int, str]:
    """The stacks of ranks on this node, innermost frame first; empty for one that is gone, stopped or does not answer.

    Args:
        folder: The status folder.
        pids: Their processes, by rank.
    """
    for rank, pid in pids.items():
        with suppress(ProcessLookupError):
            if _path(folder, rank).exists():  # else it is not ready to answer, and would die of the signal
                os.kill(pid, SIGNAL)
    deadline = time.monotonic() + TIMEOUT_S
    while not all(_text(folder, rank) for rank in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.05)  # to the end of what they are writing
    return {rank: _tidy(_text(folder, rank)) for rank in pids}


def _path(folder, rank):
    return folder / f"rank_{rank}.stacks"


def _text(folder, rank):
    path = _path(folder, rank)
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _tidy(stacks):
    """Without the watchdog's thread, and without the frames of the import system and of the script's runner."""
    lines = "\n".join(thread for thread in stacks.strip().split("\n\n") if not WATCHDOG.search(thread)).splitlines()
    return "\n".join(line for line in lines if not any(frame in line for frame in NOT_SHOWN))
