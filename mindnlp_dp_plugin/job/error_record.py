"""Why a job failed. A rank that raises writes its record, ``rank_N.error.json``, to the log directory before it ends.

For who cannot write one (a process that was killed, a node that is gone, a user who stops the job) the launcher makes
it. Launchers of several nodes send each other the same records.
"""

import json
import os
import re
import socket
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from enum import IntEnum
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError, Preempted
from mindnlp_dp_plugin.language import tr

MAX_TEXT = 4000
UNPRINTABLE = r"[^\x20-\x7e\u00a1-\u1fff\u2010-\u2027\u2070-\ud7ff\uff01-\uffee]"


class Cause(IntEnum):
    """What ends a job. Of several at a time, the lowest caused the others."""

    STOPPED = 0  # by a signal, to a launcher or to its ranks
    VANISHED = 1  # a node whose connection is lost
    DIED = 2  # a process, without a word
    RAISED = 3  # a rank, with an exception
    SILENT = 4  # a node that does not answer, perhaps a slow one: blamed only if there is no other failure


@dataclass(frozen=True)
class ErrorRecord:
    """A failure of a rank, of another process of the job, or of a node.

    Attributes:
        rank: The rank; None if it is none.
        host: The name of its node; None if that has vanished.
        time_ns: When it failed, nanoseconds since the epoch.
        exit_code: The exit status: 128 + number for a signal.
        kind: The class of the exception; None if there was none.
        message: The exception's text, or how the process died.
        traceback: The text the launcher shows: the trimmed traceback, or the one line of a ``DataParallelError``.
        log_bytes: Length of the rank's log before its traceback, so that the launcher shows the traceback only once.
        cause: What happened.
        name: What a process that is no rank is called.
        node_rank: The node where it happened.
        words: Who failed, where and how, in one line; set by the launcher of that node.
        step: The optimizer step that ranks of that node had begun; None if they were not training.
    """

    rank: int | None
    host: str | None
    time_ns: int
    exit_code: int
    kind: str | None = None
    message: str = ""
    traceback: str = ""
    log_bytes: int = 0
    cause: Cause = Cause.RAISED
    name: str | None = None
    node_rank: int = 0
    words: str = ""
    step: int | None = None

    @property
    def is_of_a_node(self) -> bool:
        """Whether a node is gone, or does not answer."""
        return self.cause in (Cause.VANISHED, Cause.SILENT)

    def log(self, log_dir: Path) -> Path:
        """The log of the process that failed."""
        return rank_log(log_dir, self.rank) if self.rank is not None else log_dir / f"{self.name}.log"

    def as_message(self) -> dict[str, Any]:
        """What other nodes need of it, in a form JSON can hold; as clocks of nodes differ, with its age for its time.

        All nodes compare the same text: ``printable`` changes it only once.
        """
        told = {name: value for name, value in asdict(self).items() if name in TOLD}
        seconds_ago = max(0.0, (time.time_ns() - self.time_ns) / 1e9)
        texts = {"message": printable(self.message), "traceback": ""}
        return {**told, **texts, "cause": int(self.cause), "seconds_ago": seconds_ago}

    @classmethod
    def from_message(cls, message: Any) -> "ErrorRecord":
        """What another node has told; its texts are made safe to show.

        Raises:
            ValueError: If the message is invalid.
        """
        if not isinstance(message, dict) or message.keys() != TOLD.keys():
            raise ValueError("no failure")
        if any(isinstance(value, bool) or not isinstance(value, TOLD[name]) for name, value in message.items()):
            raise ValueError("no failure")
        if not (0 <= message["exit_code"] < 256 and 0 <= message["seconds_ago"] < 1e6):
            raise ValueError("no failure")
        known = {name: printable(value) if isinstance(value, str) else value for name, value in message.items()}
        happened = time.time_ns() - int(known.pop("seconds_ago") * 1e9)
        return cls(**{**known, "cause": Cause(known["cause"]), "time_ns": happened})

    def as_result(self) -> dict[str, Any]:
        """The entry of ``result.json``."""
        happened = datetime.fromtimestamp(self.time_ns / 1e9, timezone.utc)
        return {
            "rank": self.rank,
            "node": self.host,
            "exception": self.kind,
            "message": self.words,
            "time": happened.isoformat(timespec="milliseconds"),
        }


TOLD = {  # the fields of such a message, and what they hold
    **dict.fromkeys(("exit_code", "log_bytes", "cause", "node_rank"), int),
    **dict.fromkeys(("message", "traceback", "words"), str),
    **dict.fromkeys(("rank", "step"), (int, type(None))),
    **dict.fromkeys(("host", "kind", "name"), (str, type(None))),
    "seconds_ago": (int, float),
}


def printable(text: str) -> str:
    """Text from another node on one line, without control characters. Made so twice, it stays as it is."""
    shown = re.sub(UNPRINTABLE, lambda match: ascii(match[0])[1:-1], text[:MAX_TEXT])
    return shown[:MAX_TEXT]


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
        cause=Cause.STOPPED if isinstance(error, Preempted) else Cause.RAISED,
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
            path = record_path(log_dir, rank)
            if not path.is_file():  # none yet; a pipe of that name would never end
                continue
            known = json.loads(path.read_bytes())
            records[rank] = ErrorRecord(**{**known, "cause": Cause(known["cause"])})
    return records


def _length_of_log() -> int:
    try:
        return os.fstat(2).st_size  # standard error goes there
    except OSError:  # the script has closed it
        return 0
