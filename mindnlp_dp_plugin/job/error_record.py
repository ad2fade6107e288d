"""Why a job failed. A rank that raises writes its record, ``rank_N.error.json``, to the log directory before it ends.

For a process that was killed the launcher makes it.
"""

import json
import os
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError, Preempted
from mindnlp_dp_plugin.language import tr


@dataclass(frozen=True)
class ErrorRecord:
    """A failure of a rank, or of another process of the job.

    Attributes:
        rank: The rank; None if it is none.
        exit_code: The exit status: 128 + number for a signal.
        kind: The class of the exception; None if there was none.
        message: The exception's text, or how the process died.
        traceback: The text the launcher shows: the trimmed traceback, or the one line of a ``DataParallelError``.
        log_bytes: Length of the rank's log before its traceback, so that the launcher shows the traceback only once.
        was_stopped: Whether it has stopped in good order, because a signal asked for it.
        name: What a process that is no rank is called.
        step: The optimizer step that ranks had begun; None if they were not training.
        time_ns: When it failed, nanoseconds since the epoch.
    """

    rank: int | None
    exit_code: int
    kind: str | None = None
    message: str = ""
    traceback: str = ""
    log_bytes: int = 0
    was_stopped: bool = False
    name: str | None = None
    step: int | None = None
    time_ns: int = field(default_factory=time.time_ns)

    def log(self, log_dir: Path) -> Path:
        """The log of the process that failed."""
        return rank_log(log_dir, self.rank) if self.rank is not None else log_dir / f"{self.name}.log"


def rank_log(log_dir: Path, rank: int) -> Path:
    """The file with all output of a rank."""
    return log_dir / f"rank_{rank}.log"


def record_path(log_dir: Path, rank: int) -> Path:
    """The file of a rank's error record."""
    return log_dir / f"rank_{rank}.error.json"


def write_record(log_dir: Path, rank: int, error: BaseException, exit_code: int) -> ErrorRecord:
    """Write the error record of this rank, atomically.

    Args:
        log_dir: The log directory.
        rank: This rank.
        error: The exception, its ``__traceback__`` already trimmed.
        exit_code: The exit status that follows.
    """
    kind, message = type(error).__name__, message_of(error)
    record = ErrorRecord(
        rank=rank,
        exit_code=exit_code,
        kind=kind,
        message=message,
        traceback=f"{kind}: {message}\n" if isinstance(error, (DataParallelError, Preempted)) else format_error(error),
        log_bytes=_length_of_log(),
        was_stopped=isinstance(error, Preempted),
    )
    write_whole(record_path(log_dir, rank), json.dumps(asdict(record)))
    return record


def write_whole(path: Path, text: str) -> None:
    """Write a file of the log directory, readable by its owner only: whole, or not at all."""
    unfinished = path.with_suffix(f".{os.getpid()}")
    unfinished.touch(0o600)
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def format_error(error: BaseException) -> str:
    """The traceback of an exception as Python prints it; without its text if ``str`` fails."""
    return "".join(traceback.format_exception(error))


def message_of(error: BaseException) -> str:
    """The text of an exception, or a note that it has none."""
    try:
        return str(error)
    except Exception as broken:
        return tr("(its text cannot be shown: str() of it raises {type})", type=type(broken).__name__)


def read_records(log_dir: Path, ranks: Iterable[int]) -> dict[int, ErrorRecord]:
    """The error records of the given ranks so far, by rank; unreadable files are skipped."""
    records = {}
    for rank in ranks:
        with suppress(OSError, ValueError, TypeError):
            records[rank] = ErrorRecord(**json.loads(record_path(log_dir, rank).read_bytes()))
    return records


def _length_of_log() -> int:
    try:
        return os.fstat(2).st_size  # standard error goes there
    except OSError:  # the script has closed it
        return 0
