"""How a rank says why it failed, and how the launcher finds the one that failed first.

A rank that raises leaves ``rank_N.error.json`` in the log directory before it ends. One that is killed leaves nothing.
"""

import json
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError

NUM_LAST_LINES = 20


@dataclass(frozen=True)
class ErrorRecord:
    """What a failing rank left behind.

    Attributes:
        rank: Its number.
        host: The name of its machine.
        time_ns: When it failed, nanoseconds since the epoch.
        exit_code: The status it ends with.
        kind: The class of the exception.
        message: Its text.
        traceback: What the launcher shows: the trimmed traceback; for a ``DataParallelError`` its one line.
        log_bytes: Length of the rank's log before its traceback, so that the launcher shows the traceback only once.
    """

    rank: int
    host: str
    time_ns: int
    exit_code: int
    kind: str
    message: str
    traceback: str
    log_bytes: int


@dataclass(frozen=True)
class Death:
    """A process that ended badly: its name, its rank if it is one, its status as ``subprocess`` gives it, its log.

    Status 0 is that of a rank that left too early, or of which nobody knows how it ended.
    """

    name: str
    rank: int | None
    returncode: int
    log: Path

    @property
    def exit_code(self) -> int:
        """What a shell would say: 128 + number for a signal. 1 for one that left with 0 while others needed it."""
        return 128 - self.returncode if self.returncode < 0 else self.returncode or 1

    def __str__(self):
        if self.returncode == 0:
            return "it left before the end of its script, while the others still needed it"
        if self.returncode > 0:
            return f"exit status {self.returncode}"
        hint = ", by someone or by the kernel for want of memory" if self.returncode == -signal.SIGKILL else ""
        return f"killed by {signal.Signals(-self.returncode).name} (signal {-self.returncode}){hint}"


def record_path(log_dir: Path, rank: int) -> Path:
    """Where a rank writes its error record."""
    return log_dir / f"rank_{rank}.error.json"


def write_record(log_dir: Path, rank: int, error: BaseException, exit_code: int) -> ErrorRecord:
    """Writes, in one piece, why this rank fails.

    Args:
        log_dir: The directory the launcher gave.
        rank: This rank.
        error: The exception, its ``__traceback__`` already trimmed.
        exit_code: The status this process is about to end with.
    """
    shown = f"{type(error).__name__}: {error}\n" if isinstance(error, DataParallelError) else format_error(error)
    record = ErrorRecord(
        rank=rank,
        host=socket.gethostname(),
        time_ns=time.time_ns(),
        exit_code=exit_code,
        kind=type(error).__name__,
        message=str(error),
        traceback=shown,
        log_bytes=os.fstat(sys.__stderr__.fileno()).st_size,
    )
    path = record_path(log_dir, rank)
    unfinished = path.with_suffix(".part")
    unfinished.touch(0o600)
    unfinished.write_text(json.dumps(asdict(record)), encoding="utf-8")
    unfinished.replace(path)
    return record


def format_error(error: BaseException) -> str:
    """The traceback of an exception as Python prints it."""
    return "".join(traceback.format_exception(error))


def read_records(log_dir: Path, ranks: Iterable[int]) -> dict[int, ErrorRecord]:
    """The error records that the given ranks have left so far, by rank."""
    paths = {rank: record_path(log_dir, rank) for rank in ranks}
    return {rank: ErrorRecord(**json.loads(path.read_bytes())) for rank, path in paths.items() if path.exists()}


def first_failure(deaths: list[Death], records: dict[int, ErrorRecord]) -> Death | ErrorRecord:
    """The failure that brought the others about.

    A rank that died without a word comes first: its peers raise because it is gone, not the other way round. Otherwise
    the earliest exception counts.

    Args:
        deaths: Processes seen to end badly, at the same time as far as the launcher can tell.
        records: What the ranks left behind.
    """
    silent = [death for death in deaths if death.rank is not None and death.rank not in records]
    if silent:
        return silent[0]
    return min(records.values(), key=lambda record: record.time_ns, default=deaths[0])


def headline(failure: Death | ErrorRecord) -> str:
    """Who failed first, on this host, and how."""
    if isinstance(failure, ErrorRecord):
        return f"rank {failure.rank} on {failure.host} failed first: {failure.kind}, exit status {failure.exit_code}"
    return f"{failure.name} on {socket.gethostname()} failed first: {failure}"


def report(failure: Death | ErrorRecord, log: Path) -> str:
    """The text the launcher ends with: who failed first and how, its traceback or last lines, where its log is.

    Args:
        failure: The first failure.
        log: Path of the log of the process that failed.
    """
    if isinstance(failure, ErrorRecord):
        details = failure.traceback.rstrip()
    else:
        details = f"The last lines of its log:\n{_last_lines(log)}"
    return f"mindnlp-dp: {headline(failure)}\n{details}\nmindnlp-dp: all other ranks were ended; its log: {log}\n"


def _last_lines(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(f"    {line}" for line in lines[-NUM_LAST_LINES:]) or "    (empty)"
