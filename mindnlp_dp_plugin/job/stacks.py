"""The Python stack of a rank, written by a signal handler that needs no help from the interpreter."""

import faulthandler
import functools
import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

SIGNAL = signal.SIGRTMAX - 3  # common signals belong to the user's script and to batch systems
TIMEOUT_S = 0.5
NOT_SHOWN = ('"<frozen importlib', '"<frozen runpy>"', "mindnlp_dp_plugin/runtime/worker.py")


@functools.cache
def answer_for_stacks(folder: Path, rank: int) -> None:
    """Let this process write the Python stack of its main thread on request. Call it in the main thread first.

    Of no other: a handler that walks the frames of threads that run on may read what they have just given up, and crash
    (SIGSEGV). When Python ends, faulthandler puts back what was there before: unless that ignores the signal, it kills
    a rank that waits in MPI's clean-up.
    """
    descriptor = os.open(_path(folder, rank), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with suppress(ValueError):  # in another thread
        signal.signal(SIGNAL, signal.SIG_IGN)
    faulthandler.register(SIGNAL, file=descriptor, all_threads=False)


def can_answer(folder: Path, rank: int) -> bool:
    """Whether a rank is ready for the signal, of which it would die otherwise."""
    return _path(folder, rank).exists()


def read_stacks(folder: Path, ranks: Iterable[int]) -> dict[int, str]:
    """The stacks of ranks on this node that were sent the signal, innermost frame first; empty for one that is stopped
    or does not answer.

    Args:
        folder: The status folder.
        ranks: The ranks.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while not all(_text(folder, rank) for rank in ranks) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.05)  # to the end of what they are writing
    return {rank: _tidy(_text(folder, rank)) for rank in ranks}


def _path(folder, rank):
    return folder / f"rank_{rank}.stacks"


def _text(folder, rank):
    path = _path(folder, rank)
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _tidy(stacks):
    """Without the frames of the import system and of the script's runner."""
    lines = stacks.strip().splitlines()
    return "\n".join(line for line in lines if not any(frame in line for frame in NOT_SHOWN))
