"""Why a rank failed: ``rank_N.error.json`` in the log directory, written before the rank ends.

A rank that raises writes one; a rank that is killed does not.
"""

import json
import os
import socket
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError, Preempted
from mindnlp_dp_plugin.language import tr


@dataclass(frozen=True)
class ErrorRecord:
    """The error record of a rank.

    Attributes:
        rank: The rank.
        host: The name of its node.
        time_ns: When it failed, nanoseconds since the epoch.
        exit_code: Its exit status.
        kind: The class of the exception.
        message: The exception's text.
        traceback: The text the launcher shows: the trimmed traceback, or the one line of a ``DataParallelError``.
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
        host=socket.gethostname(),
        time_ns=time.time_ns(),
        exit_code=exit_code,
        kind=kind,
        message=message,
        traceback=f"{kind}: {message}\n" if isinstance(error, (DataParallelError, Preempted)) else format_error(error),
        log_bytes=_length_of_log(),
    )
    path = record_path(log_dir, rank)
    unfinished = path.with_suffix(".part")
    unfinished.touch(0o600)
    unfinished.write_text(json.dumps(asdict(record)), encoding="utf-8")
    unfinished.replace(path)
    return record


def format_error(error: BaseException) -> str:
    """The traceback of an exception as Python prints it; without its text if ``str`` fails."""
    try:
        return "".join(traceback.format_exception(error))
    except Exception:  # an exception whose own methods raise
        frames = "".join(traceback.format_tb(error.__traceback__))
        return f"Traceback (most recent call last):\n{frames}{type(error).__name__}: {message_of(error)}\n"


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
