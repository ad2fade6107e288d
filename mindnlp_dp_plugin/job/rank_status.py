"""What each rank shows to launcher and watchdog: its collective, where it saves and, on request, its stacks.

The status folder is private, in shared memory; ``mindnlp-dp run`` makes and removes it. Writing a status takes a
microsecond, and it can be read while the rank hangs in native code or is gone.
"""

import ctypes
import json
import mmap
import os
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

import psutil

from mindnlp_dp_plugin.job.rank_process import folder_told
from mindnlp_dp_plugin.job.signals import start_of
from mindnlp_dp_plugin.job.stacks import SIGNAL, answer_for_stacks, can_answer, read_stacks
from mindnlp_dp_plugin.job.variables import STATUS_DIR
from mindnlp_dp_plugin.language import Message, tr

JOINING = Message("joining the other ranks")
ENDING = Message("its last barrier")
LEAVING = Message("executing a program in its place")
CLAIM = "given_up"  # made by the rank that reports why the job ends
SAVES = "saves"
TRAINING = "training"
MAX_NAME = 31
MAX_PURPOSE = 63


class Phase(IntEnum):
    """What a rank does."""

    RUNNING = 0  # in no collective
    WAITING = 1  # in one
    DONE = 2  # all ranks have come to their end
    FAILED = 3


class Status(ctypes.Structure):
    """What a rank does, as it stands in shared memory. The thread that calls the collectives writes it.

    Attributes:
        pid: Its process id.
        began: When that process was started, as the kernel counts it: another may get the same number later.
        phase: Whether it waits in a collective.
        number: The number of its current or last collective, from 1.
        since: When it entered or left that collective, on the machine's monotonic clock.
        timeout: Seconds it may wait; 0 if not set yet.
        num_elements: Number of elements in the collective, if that must be the same on all ranks.
        step: The optimizer step that it has begun; 0 before the first.
    """

    _fields_ = (
        ("pid", ctypes.c_int64),
        ("began", ctypes.c_int64),
        ("phase", ctypes.c_int64),
        ("number", ctypes.c_int64),
        ("since", ctypes.c_double),
        ("timeout", ctypes.c_double),
        ("num_elements", ctypes.c_int64),
        ("step", ctypes.c_int64),
        ("_name", ctypes.c_char * (MAX_NAME + 1)),
        ("_purpose", ctypes.c_char * (MAX_PURPOSE + 1)),
    )

    @property
    def name(self) -> str:
        """The collective's name."""
        return self._name.decode(errors="replace")

    @property
    def purpose(self) -> str:
        """What an exchange of objects is for."""
        return self._purpose.decode(errors="replace")

    @property
    def collective(self) -> str:
        """A description of the collective."""
        if not self.number:
            return tr(self.name)
        return describe_collective(self.number, self.name, self.num_elements, self.purpose)

    @property
    def is_at_its_end(self) -> bool:
        """Whether it has nothing left to do but to wait for the others' ends."""
        return self.phase == Phase.DONE or (self.phase == Phase.WAITING and self.name == ENDING)

    @property
    def has_joined(self) -> bool:
        """Whether this rank has joined the others."""
        return bool(self.name) and not (self.name == JOINING and self.phase == Phase.WAITING)

    def __str__(self):
        known = {"seconds": time.monotonic() - self.since, "collective": self.collective}
        if self.phase == Phase.DONE:
            return tr("has ended")
        if self.phase == Phase.WAITING:
            said = tr("for {seconds:.1f} s in {collective}", **known)
        elif self.name:
            said = tr("for {seconds:.1f} s in no collective; its last was {collective}", **known)
        else:
            said = tr("for {seconds:.1f} s in no collective; it has joined nobody yet", **known)
        return tr("{said} (stopped by a signal)", said=said) if _is_stopped(self.pid) else said

    def enter(self, number: int, name: str, num_elements: int = 0, purpose: str = "") -> None:
        """Record that this rank waits in a collective."""
        self._purpose = purpose.encode()[:MAX_PURPOSE]
        self.number = number
        self._name = name.encode()
        self.num_elements = num_elements
        self.since = time.monotonic()
        self.phase = Phase.WAITING

    def leave(self) -> None:
        """Record that this rank no longer waits."""
        self.phase = Phase.RUNNING
        self.since = time.monotonic()

    def begin_step(self, step: int) -> None:
        """Record which optimizer step this rank has begun, from 1."""
        self.step = step

    def end(self) -> None:
        """Record that all ranks are done, so this one may leave."""
        self.phase = Phase.DONE

    def fail(self) -> None:
        """Record that this rank ends because of an exception: the disk with the logs may be full."""
        self.since = time.monotonic()
        self.phase = Phase.FAILED

    def read(self) -> "Status":
        """What it says now."""
        return Status.from_buffer_copy(self)


def describe_collective(number: int, name: str, num_elements: int = 0, purpose: str = "") -> str:
    """A collective in words, of which ``Status.enter`` was told."""
    known = {"name": tr(name), "number": number, "elements": num_elements, "purpose": tr(purpose)}
    if purpose:
        return tr("{name} (number {number}, for {purpose})", **known)
    if num_elements:
        return tr("{name} of {elements} elements (number {number})", **known)
    return tr("{name} (number {number})", **known)


def show_status(rank: int) -> Status:
    """This process's status and, when asked, its stacks, where its launcher looks for them, if that is mindnlp-dp run.

    May be called again: the same status is shown. A child of the rank shows none.
    """
    if folder := folder_told(STATUS_DIR):
        with suppress(FileNotFoundError):  # it was removed; who reads the status still has what was shown in it before
            status = own_status(status_path(folder, rank))
            answer_for_stacks(folder, rank)
            return status
    return own_status()


def own_status(path: Path | None = None) -> Status:
    """The status of this process.

    Args:
        path: Its file; None if no other process reads it.
    """
    size = ctypes.sizeof(Status)
    if path is None:
        memory = mmap.mmap(-1, size)
    else:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.posix_fallocate(descriptor, 0, size)  # an error now, where a full disk would be a SIGBUS later
        memory = mmap.mmap(descriptor, size)
        os.close(descriptor)
    status = Status.from_buffer(memory)
    if status.pid != os.getpid():
        status.began, status.pid, status.since = start_of(os.getpid()) or 0, os.getpid(), time.monotonic()
    return status


def status_path(folder: Path, rank: int) -> Path:
    """The file of a rank's status."""
    return folder / f"rank_{rank}.state"


_shown: dict[Path, mmap.mmap] = {}  # what is mapped can still be read when the folder is gone


def read_status(folder: Path, rank: int) -> Status | None:
    """The status of a rank; None if it has not started."""
    path = status_path(folder, rank)
    if path not in _shown:
        try:
            with path.open("rb") as file:
                _shown[path] = mmap.mmap(file.fileno(), ctypes.sizeof(Status), prot=mmap.PROT_READ)
        except (FileNotFoundError, ValueError):  # ValueError: it is empty as yet
            return None
    status = Status.from_buffer_copy(_shown[path])
    return status if status.pid else None


def send_signal(status: Status, signum: int) -> bool:
    """Send a signal to a rank, unless it has come to its end or is gone; returns whether it was sent.

    Python's handlers are gone before a process is, and it may wait long in MPI's clean-up: then the signal would kill
    it. When it is gone, another process may have its number.
    """
    if status.phase in (Phase.DONE, Phase.FAILED) or start_of(status.pid) != status.began:
        return False
    with suppress(ProcessLookupError):
        os.kill(status.pid, signum)
        return True
    return False


def note_exception(rank: int, error: BaseException | None) -> None:
    """Record what ended this rank's ``train()``: peers report it if the script catches it. None to forget it."""
    if not (folder := folder_told(STATUS_DIR)):
        return
    with suppress(FileNotFoundError):  # somebody has removed the folder
        if error is None:
            _exception_path(folder, rank).unlink(missing_ok=True)
        else:
            text = "".join(traceback.format_exception(error))
            _exception_path(folder, rank).write_text(text, encoding="utf-8", errors="replace")


def describe_caught(folder: Path, ranks: Iterable[int]) -> str:
    """What ended ``train()`` on some of these ranks, and their scripts have caught, with tracebacks; empty without."""
    ranks = list(ranks)
    noted = {rank: path for rank in ranks if (path := _exception_path(folder, rank)).exists()}
    if len(noted) == len(ranks):  # on all of them, none went on without the others
        return ""
    return "".join(
        tr(
            "rank {rank}: its train() raised {error}, and its script went on without the others:\n{traceback}\n",
            rank=rank,
            error=text.strip().rpartition("\n")[2],
            traceback=text.rstrip(),
        )
        for rank, text in ((rank, path.read_text(encoding="utf-8")) for rank, path in noted.items())
    )


def describe_ranks(folder: Path, ranks: Iterable[int]) -> str:
    """A text with the collective and the stacks of each given rank of this node."""
    statuses = {rank: read_status(folder, rank) for rank in ranks}
    begun = {rank: status for rank, status in statuses.items() if status}
    asked = [rank for rank, status in begun.items() if can_answer(folder, rank) and send_signal(status, SIGNAL)]
    stacks = read_stacks(folder, asked)
    lines = [f"  rank {rank}: {status or tr('has not started')}" for rank, status in statuses.items()]
    for rank in begun:
        lines.append(f"\n{tr('Stacks of rank {rank}, innermost call first:', rank=rank)}\n{stacks.get(rank, '')}")
    return "\n".join(lines)


def note(kind: str, value: Any) -> None:
    """Tell the launcher something, in JSON.

    Args:
        kind: ``SAVES``: a folder where checkpoints are written, so that a partial one is removed if this process is
            killed. ``TRAINING``: what was measured of a training, on rank 0.
        value: What is told.
    """
    if folder := folder_told(STATUS_DIR):
        with suppress(OSError):
            folder.mkdir(0o700, parents=True, exist_ok=True)  # somebody may have removed it
            with (folder / kind).open("a", encoding="utf-8") as notes:
                notes.write(json.dumps(value) + "\n")


def noted(folder: Path, kind: str) -> list:
    """All that ``note`` has told of a kind."""
    notes = folder / kind
    return [json.loads(line) for line in notes.read_text("utf-8").splitlines()] if notes.exists() else []


def _exception_path(folder, rank):
    return folder / f"rank_{rank}.exception"


def _is_stopped(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False
