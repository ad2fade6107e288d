"""How a job ended: which failure was first, for the user and, in ``result.json``, for schedulers and scripts."""

import json
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.job.error_record import ErrorRecord, write_whole
from mindnlp_dp_plugin.job.signals import name_of
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.logs import RESULT, last_bytes

FORMAT = 1  # of result.json
NUM_LAST_LINES = 20
MAX_LINE = 2000


@dataclass(frozen=True)
class Ending:
    """How a job ended.

    Attributes:
        exit_code: The launcher's exit code.
        words: The text for the user.
        failure: The failure that ended it; None if it succeeded.
        was_stopped: Whether a signal ended it, to a launcher or to its ranks.
        training: What rank 0 has measured of the last training that ended, if it is on this node and one did.
    """

    exit_code: int
    words: str
    failure: ErrorRecord | None = None
    was_stopped: bool = False
    training: dict[str, float] | None = None

    def write(self, log_dir: Path, **further: Any) -> None:
        """Write ``result.json`` to the log directory, atomically, if that still exists.

        Args:
            log_dir: The log directory.
            further: What else it says: ``restarts``, ``last_checkpoint``, ``seconds``, ``job``, ``command``,
                ``ranks``, ``environment``.
        """
        result = {
            "format": FORMAT,
            "status": "succeeded" if self.exit_code == 0 else "stopped" if self.was_stopped else "failed",
            "exit_code": self.exit_code,
            "first_failure": self.failure and _as_result(self.failure),
            "training": self.training,
            **further,
        }
        with suppress(OSError):
            write_whole(log_dir / RESULT, json.dumps(result, indent=2) + "\n")


def death(name: str, rank: int | None, returncode: int) -> ErrorRecord:
    """The failure of a process that died without a word.

    Args:
        name: Its name.
        rank: Its rank, if it is one.
        returncode: Its status as in ``subprocess``; 0 if a rank left too early, or its end is unknown.
    """
    return ErrorRecord(
        rank=rank,
        exit_code=128 - returncode if returncode < 0 else returncode or 1,
        message=_how(returncode),
        name=name,
    )


def first_failure(deaths: list[ErrorRecord], records: dict[int, ErrorRecord]) -> ErrorRecord:
    """The failure that caused the others.

    A rank that died without an exception comes first: its peers raise because it is gone. Otherwise the earliest
    exception counts.

    Args:
        deaths: Processes that failed at the same time, as far as the launcher can tell.
        records: The ranks' error records.
    """
    silent = [death for death in deaths if death.rank is not None and death.rank not in records]
    if silent:
        return silent[0]
    return min(records.values(), key=lambda record: record.time_ns, default=deaths[0])


def headline(failure: ErrorRecord) -> str:
    """One line: who failed first, and how; of ranks that have stopped in good order, what they have done."""
    if failure.was_stopped:
        return failure.message
    if failure.kind:
        return tr(
            "rank {rank} on {host} failed first: {exception}, exit status {status}",
            rank=failure.rank,
            host=socket.gethostname(),
            exception=failure.kind,
            status=failure.exit_code,
        )
    host = socket.gethostname()
    return tr("{name} on {host} failed first: {how}", name=failure.name, host=host, how=failure.message)


def report(failure: ErrorRecord, log: Path) -> str:
    """The launcher's last text: who failed first and how, its traceback or last lines, and its log.

    Args:
        failure: The first failure.
        log: Path of the log of the process that failed.
    """
    details = failure.traceback.rstrip() if failure.kind else f"{tr('The last lines of its log:')}\n{_last_lines(log)}"
    end = tr("all other ranks were ended; its log: {log}", log=log)
    return f"mindnlp-dp: {headline(failure)}\n{details}\nmindnlp-dp: {end}\n"


def _how(returncode):
    if returncode == 0:
        return tr("it left before the end of its script, while the others still needed it")
    if returncode > 0:
        return tr("exit status {status}", status=returncode)
    killer = {"name": name_of(-returncode), "number": -returncode}
    if returncode == -signal.SIGKILL:
        return tr("killed by {name} (signal {number}), by somebody or by the kernel because memory ran out", **killer)
    return tr("killed by {name} (signal {number})", **killer)


def _last_lines(path: Path) -> str:
    lines = last_bytes(path).decode(errors="replace").splitlines()[-NUM_LAST_LINES:]
    return "\n".join(f"    {line[-MAX_LINE:]}" for line in lines) or f"    ({tr('empty')})"


def _as_result(failure):
    happened = datetime.fromtimestamp(failure.time_ns / 1e9, timezone.utc)
    return {
        "rank": failure.rank,
        "node": socket.gethostname(),
        "exception": failure.kind,
        "message": headline(failure),
        "time": happened.isoformat(timespec="milliseconds"),
    }
