"""Which failure was first, and how it is reported."""

import signal
import socket
import time
from pathlib import Path

from mindnlp_dp_plugin.job.error_record import ErrorRecord
from mindnlp_dp_plugin.job.signals import name_of
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.logs import last_bytes

NUM_LAST_LINES = 20
MAX_LINE = 2000


def death(name: str, rank: int | None, returncode: int) -> ErrorRecord:
    """The failure of a process that died without a word.

    Args:
        name: Its name.
        rank: Its rank, if it is one.
        returncode: Its status as in ``subprocess``; 0 if a rank left too early, or its end is unknown.
    """
    return ErrorRecord(
        rank=rank,
        host=socket.gethostname(),
        time_ns=time.time_ns(),
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
    """One line: who failed first, and how."""
    if failure.kind:
        return tr(
            "rank {rank} on {host} failed first: {exception}, exit status {status}",
            rank=failure.rank,
            host=failure.host,
            exception=failure.kind,
            status=failure.exit_code,
        )
    return tr("{name} on {host} failed first: {how}", name=failure.name, host=failure.host, how=failure.message)


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
        return tr("killed by {name} (signal {number}), by someone or by the kernel for want of memory", **killer)
    return tr("killed by {name} (signal {number})", **killer)


def _last_lines(path: Path) -> str:
    lines = last_bytes(path).decode(errors="replace").splitlines()[-NUM_LAST_LINES:]
    return "\n".join(f"    {line[-MAX_LINE:]}" for line in lines) or f"    ({tr('empty')})"
