"""What each rank shows to those who watch it: what it waits for, where it saves and, when asked, its stacks.

The board is a private folder in shared memory that ``mindnlp-dp run`` makes and removes. Noting a state there costs
less than a microsecond, and it can be read when the rank hangs in native code or is gone. Stacks are written by a
signal handler that needs no help from the interpreter.
"""

import faulthandler
import json
import mmap
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Tells a rank where the board is.
BOARD = "MINDNLP_DP_BOARD"

STACKS_SIGNAL = signal.SIGRTMAX - 3  # the familiar ones belong to the user's script and to batch systems
STACKS_TIMEOUT_S = 0.5

# A state is these numbers, each a float64: assigning one takes some 40 ns.
PID, PHASE, NUMBER, SINCE, NUM_ELEMENTS, NAME = range(6)
STATE_BYTES = 6 * 8

RUNNING, WAITING, DONE = range(3)

NOTHING, JOINING, ALL_REDUCE, BROADCAST, ALL_GATHER_OBJECT, BARRIER, END = range(7)
NAMES = ("", "joining the other ranks", "all_reduce", "broadcast", "all_gather_object", "barrier", "its last barrier")

CLAIM = "given_up"  # made by the rank that tells why all give up
SAVES = "saves"


@dataclass(frozen=True)
class State:
    """What a rank does.

    Attributes:
        pid: Its process.
        phase: ``RUNNING`` (in no collective), ``WAITING`` (in one) or ``DONE`` (all ranks have come to their end).
        number: Which of its collectives it is in, or was in last; they count from 1.
        since: When it entered or left it, on the machine's monotonic clock.
        num_elements: How many elements that collective takes, where it must be the same number on all ranks.
        name: Its name.
    """

    pid: int
    phase: int
    number: int
    since: float
    num_elements: int
    name: str

    @property
    def collective(self) -> str:
        """The collective in words."""
        elements = f" of {self.num_elements} elements" if self.num_elements else ""
        return f"{self.name}{elements} (number {self.number})" if self.number else self.name

    def __str__(self):
        seconds = f"{time.monotonic() - self.since:.1f} s"
        if self.phase == WAITING:
            return f"for {seconds} in {self.collective}"
        if self.phase == DONE:
            return "has come to its end"
        last = f"its last was {self.collective}" if self.name else "it has joined nobody yet"
        return f"for {seconds} in no collective; {last}"


class Board:
    """This rank's own state. Written by the thread that calls the collectives.

    Args:
        path: Its file; None if nobody else is to see it.
    """

    def __init__(self, path: Path | None):
        if path is None:
            memory = mmap.mmap(-1, STATE_BYTES)
        else:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
            os.ftruncate(descriptor, STATE_BYTES)
            memory = mmap.mmap(descriptor, STATE_BYTES)
            os.close(descriptor)
        self._state = memoryview(memory).cast("d")
        self._state[PID] = os.getpid()
        self._state[SINCE] = time.monotonic()

    def enter(self, number: int, name: int, num_elements: int = 0) -> None:
        """This rank begins to wait in the collective with this number and ``NAMES[name]``."""
        state = self._state
        state[NUMBER] = number
        state[NAME] = name
        state[NUM_ELEMENTS] = num_elements
        state[SINCE] = time.monotonic()
        state[PHASE] = WAITING

    def leave(self) -> None:
        """This rank waits no longer."""
        self._state[PHASE] = RUNNING
        self._state[SINCE] = time.monotonic()

    def end(self) -> None:
        """All ranks have come to their end: from now on this one may leave."""
        self._state[PHASE] = DONE

    def read(self) -> State:
        """What is noted now."""
        return _parse(self._state)


def state_path(folder: Path, rank: int) -> Path:
    """Where a rank notes its state."""
    return folder / f"rank_{rank}.state"


def read_state(folder: Path, rank: int) -> State | None:
    """What a rank has noted; None if it has not begun."""
    try:
        content = state_path(folder, rank).read_bytes()
    except FileNotFoundError:
        return None
    return _parse(memoryview(content).cast("d")) if len(content) == STATE_BYTES else None


def note_save(home: Path) -> None:
    """Note that checkpoints are written to ``home``, so that half of one is removed if this process is killed."""
    if BOARD in os.environ:
        with Path(os.environ[BOARD], SAVES).open("a", encoding="utf-8") as saves:
            saves.write(json.dumps(str(home.absolute())) + "\n")


def noted_saves(folder: Path) -> set[Path]:
    """The folders that ``note_save`` was told of."""
    saves = folder / SAVES
    return {Path(json.loads(line)) for line in saves.read_text("utf-8").splitlines()} if saves.exists() else set()


def answer_for_stacks(folder: Path, rank: int) -> None:
    """From now on this process writes the Python stacks of all its threads when it gets ``STACKS_SIGNAL``."""
    descriptor = os.open(_stacks_path(folder, rank), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    faulthandler.register(STACKS_SIGNAL, file=descriptor, all_threads=True)


def ask_for_stacks(folder: Path, states: dict[int, State]) -> dict[int, str]:
    """The stacks of ranks on this host, innermost frame first; empty for one that is gone.

    Args:
        folder: The board.
        states: What they have noted, by rank.
    """
    for state in states.values():
        with suppress(ProcessLookupError):
            os.kill(state.pid, STACKS_SIGNAL)
    deadline = time.monotonic() + STACKS_TIMEOUT_S
    while not all(_text(_stacks_path(folder, rank)) for rank in states) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.05)  # to the end of what they are writing
    return {rank: _text(_stacks_path(folder, rank)) for rank in states}


def _stacks_path(folder, rank):
    return folder / f"rank_{rank}.stacks"


def _text(path):
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _parse(state):
    return State(
        pid=int(state[PID]),
        phase=int(state[PHASE]),
        number=int(state[NUMBER]),
        since=state[SINCE],
        num_elements=int(state[NUM_ELEMENTS]),
        name=NAMES[int(state[NAME])],
    )
