"""What each rank shows to launcher and watchdog: its collective, where it saves and, on request, its stacks.

The status folder is private, in shared memory; ``mindnlp-dp run`` makes and removes it. Writing a status takes a
microsecond, and it can be read while the rank hangs in native code or is gone.
"""

import ctypes
import json
import mmap
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

import psutil

from mindnlp_dp_plugin.job.stacks import answer_for_stacks, ask_for_stacks
from mindnlp_dp_plugin.job.variables import STATUS_DIR
from mindnlp_dp_plugin.language import Message, tr

JOINING = Message("joining the other ranks")
ENDING = Message("its last barrier")
CLAIM = "given_up"  # made by the rank that reports why the job ends
SAVES = "saves"
THREAD = "thread "
MAX_NAME = 31
MAX_PURPOSE = 63


class Phase(IntEnum):
    """What a rank does."""

    RUNNING = 0  # in no collective
    WAITING = 1  # in one
    DONE = 2  # all ranks have come to their end
    FAILED = 3


class _Record(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_int64),
        ("phase", ctypes.c_int64),
        ("number", ctypes.c_int64),
        ("since", ctypes.c_double),
        ("timeout", ctypes.c_double),
        ("num_elements", ctypes.c_int64),
        ("step", ctypes.c_int64),
        ("name", ctypes.c_char * (MAX_NAME + 1)),
        ("purpose", ctypes.c_char * (MAX_PURPOSE + 1)),
    )


@dataclass(frozen=True)
class Status:
    """What a rank does.

    Attributes:
        pid: Its process id.
        phase: Whether it waits in a collective.
        number: The number of its current or last collective, from 1.
        since: When it entered or left that collective, on the machine's monotonic clock.
        timeout: Seconds it may wait; 0 if not set yet.
        num_elements: Number of elements in the collective, if that must be the same on all ranks.
        step: The optimizer step that it has begun; 0 before the first.
        name: The collective's name.
        purpose: What an exchange of objects is for.
    """

    pid: int
    phase: Phase
    number: int
    since: float
    timeout: float
    num_elements: int
    step: int
    name: str
    purpose: str

    @property
    def collective(self) -> str:
        """A description of the collective."""
        if not self.number:
            return tr(self.name)
        return describe_collective(self.number, self.name, self.num_elements, self.purpose)

    @property
    def thread(self) -> str | None:
        """The thread for which this rank waits at the end of its script."""
        return self.name.removeprefix(THREAD) if self.name.startswith(THREAD) else None

    @property
    def has_joined(self) -> bool:
        """Whether this rank has joined the others."""
        return bool(self.name) and not (self.name == JOINING and self.phase == Phase.WAITING)

    def __str__(self):
        known = {"seconds": time.monotonic() - self.since, "collective": self.collective, "thread": self.thread}
        if self.thread:
            return tr("for {seconds:.1f} s at the end of its script, waiting for its thread {thread!r}", **known)
        if self.phase == Phase.DONE:
            return tr("has come to its end")
        if self.phase == Phase.WAITING:
            said = tr("for {seconds:.1f} s in {collective}", **known)
        elif self.name:
            said = tr("for {seconds:.1f} s in no collective; its last was {collective}", **known)
        else:
            said = tr("for {seconds:.1f} s in no collective; it has joined nobody yet", **known)
        return tr("{said} (stopped by a signal)", said=said) if _is_stopped(self.pid) else said


class RankStatus:
    """This rank's own status. Written by the thread that calls the collectives.

    Args:
        path: Its file; None if no other process reads it.
    """

    def __init__(self, path: Path | None = None):
        size = ctypes.sizeof(_Record)
        if path is None:
            memory = mmap.mmap(-1, size)
        else:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            os.posix_fallocate(descriptor, 0, size)  # an error now, where a full disk would be a SIGBUS later
            memory = mmap.mmap(descriptor, size)
            os.close(descriptor)
        self._record = _Record.from_buffer(memory)
        if self._record.pid != os.getpid():
            self._record.pid = os.getpid()
            self._record.since = time.monotonic()

    def allow(self, timeout: float) -> None:
        """Set how many seconds this rank may wait."""
        self._record.timeout = timeout

    def enter(self, number: int, name: str, num_elements: int = 0, purpose: str = "") -> None:
        """Record that this rank waits in a collective."""
        record = self._record
        record.purpose = purpose.encode()[:MAX_PURPOSE]
        record.number = number
        record.name = name.encode()
        record.num_elements = num_elements
        record.since = time.monotonic()
        record.phase = Phase.WAITING

    def leave(self) -> None:
        """Record that this rank no longer waits."""
        self._record.phase = Phase.RUNNING
        self._record.since = time.monotonic()

    def begin_step(self, step: int) -> None:
        """Record which optimizer step this rank has begun, from 1."""
        self._record.step = step

    def end(self) -> None:
        """Record that all ranks are done, so this one may leave."""
        self._record.phase = Phase.DONE

    def fail(self) -> None:
        """Record that this rank ends because of an exception: the disk with the logs may be full."""
        self._record.since = time.monotonic()
        self._record.phase = Phase.FAILED

    def wait_for_thread(self, name: str) -> None:
        """Record that this rank has come to the end of its script, but must wait for a thread."""
        self._record.name = f"{THREAD}{name}".encode()[:MAX_NAME]
        self._record.since = time.monotonic()

    def read(self) -> Status:
        """The current status."""
        return _parse(self._record)


def describe_collective(number: int, name: str, num_elements: int = 0, purpose: str = "") -> str:
    """A collective in words, of which ``RankStatus.enter`` was told."""
    known = {"name": tr(name), "number": number, "elements": num_elements, "purpose": tr(purpose)}
    if purpose:
        return tr("{name} (number {number}, for {purpose})", **known)
    if num_elements:
        return tr("{name} of {elements} elements (number {number})", **known)
    return tr("{name} (number {number})", **known)


def show_status(rank: int) -> RankStatus:
    """This process's status and, when asked, its stacks, where its launcher looks for them, if that is mindnlp-dp run.

    May be called again: the same status is shown.
    """
    if STATUS_DIR not in os.environ:
        return RankStatus()
    folder = Path(os.environ[STATUS_DIR])
    status = RankStatus(status_path(folder, rank))
    answer_for_stacks(folder, rank)
    return status


def status_path(folder: Path, rank: int) -> Path:
    """The file of a rank's status."""
    return folder / f"rank_{rank}.state"


def read_status(folder: Path, rank: int) -> Status | None:
    """The status of a rank; None if it has not started."""
    try:
        content = status_path(folder, rank).read_bytes()
    except FileNotFoundError:
        return None
    return _parse(_Record.from_buffer_copy(content)) if len(content) == ctypes.sizeof(_Record) else None


def note_exception(rank: int, error: BaseException | None) -> None:
    """Record what ended this rank's ``train()``: peers report it if the script catches it. None to forget it."""
    if STATUS_DIR not in os.environ:
        return
    note = _exception_path(Path(os.environ[STATUS_DIR]), rank)
    if error is None:
        note.unlink(missing_ok=True)
    else:
        note.write_text(f"{type(error).__name__}: {error}", encoding="utf-8", errors="replace")


def describe_ranks(folder: Path, ranks: Iterable[int]) -> str:
    """A text with the collective and the stacks of each given rank of this node."""
    statuses = {rank: read_status(folder, rank) for rank in ranks}
    begun = {rank: status for rank, status in statuses.items() if status}
    stacks = ask_for_stacks(folder, {rank: status.pid for rank, status in begun.items()})
    lines = [f"  rank {rank}: {status or tr('has not started')}" for rank, status in statuses.items()]
    for rank in begun:
        if (note := _exception_path(folder, rank)).exists():
            caught = note.read_text(encoding="utf-8")
            lines.append(
                "  " + tr("rank {rank}: its train() raised {error}, and the script went on", rank=rank, error=caught)
            )
    for rank in begun:
        lines.append(f"\n{tr('Stacks of rank {rank}, innermost call first:', rank=rank)}\n{stacks[rank]}")
    return "\n".join(lines)


def note_save(home: Path) -> None:
    """Record that checkpoints are written to ``home``, so that a partial one is removed if this process is killed."""
    if STATUS_DIR in os.environ:
        with Path(os.environ[STATUS_DIR], SAVES).open("a", encoding="utf-8") as saves:
            saves.write(json.dumps(str(home.absolute())) + "\n")


def noted_saves(folder: Path) -> set[Path]:
    """The folders recorded by ``note_save``."""
    saves = folder / SAVES
    return {Path(json.loads(line)) for line in saves.read_text("utf-8").splitlines()} if saves.exists() else set()


def _exception_path(folder, rank):
    return folder / f"rank_{rank}.exception"


def _is_stopped(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_STOPPED
    except psutil.Error:
        return False


def _parse(record):
    return Status(
        pid=record.pid,
        phase=Phase(record.phase),
        number=record.number,
        since=record.since,
        timeout=record.timeout,
        num_elements=record.num_elements,
        step=record.step,
        name=record.name.decode(errors="replace"),
        purpose=record.purpose.decode(errors="replace"),
    )
