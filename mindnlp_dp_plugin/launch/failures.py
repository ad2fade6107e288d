"""Which failure was first, and how it is reported."""

import signal
import socket
from dataclasses import dataclass
from pathlib import Path

from mindnlp_dp_plugin.errors import Preempted
from mindnlp_dp_plugin.job.error_record import ErrorRecord
from mindnlp_dp_plugin.job.signals import name_of
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.logs import last_bytes

NUM_LAST_LINES = 20
MAX_LINE = 2000


@dataclass(frozen=True)
class Death:
    """A process that failed: its name, its rank if it is one, its status as in ``subprocess``, its log.

    Status 0 means that a rank left too early, or that its end is unknown.
    """

    name: str
    rank: int | None
    returncode: int
    log: Path

    @property
    def exit_code(self) -> int:
        """The exit code as in a shell: 128 + number for a signal; 1 for a rank that left with 0 too early."""
        return 128 - self.returncode if self.returncode < 0 else self.returncode or 1

    def __str__(self):
        if self.returncode == 0:
            return tr("it left before the end of its script, while the others still needed it")
        if self.returncode > 0:
            return tr("exit status {status}", status=self.returncode)
        killer = {"name": name_of(-self.returncode), "number": -self.returncode}
        if self.returncode == -signal.SIGKILL:
            return tr("killed by {name} (signal {number}), by someone or by the kernel for want of memory", **killer)
        return tr("killed by {name} (signal {number})", **killer)


def first_failure(deaths: list[Death], records: dict[int, ErrorRecord]) -> Death | ErrorRecord:
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


def headline(failure: Death | ErrorRecord) -> str:
    """One line: who failed first on this node, and how."""
    if isinstance(failure, ErrorRecord):
        return tr(
            "rank {rank} on {host} failed first: {exception}, exit status {status}",
            rank=failure.rank,
            host=failure.host,
            exception=failure.kind,
            status=failure.exit_code,
        )
    return tr("{name} on {host} failed first: {how}", name=failure.name, host=socket.gethostname(), how=failure)


def report(failure: Death | ErrorRecord, log: Path) -> str:
    """The launcher's last text: who failed first and how, its traceback or last lines, and its log.

    Args:
        failure: The first failure.
        log: Path of the log of the process that failed.
    """
    if isinstance(failure, ErrorRecord):
        details = failure.traceback.rstrip()
    else:
        details = f"{tr('The last lines of its log:')}\n{_last_lines(log)}"
    end = tr("all other ranks were ended; its log: {log}", log=log)
    return f"mindnlp-dp: {headline(failure)}\n{details}\nmindnlp-dp: {end}\n"


def is_preemption(failure: Death | ErrorRecord) -> bool:
    """Whether a rank has stopped in good order, because a signal asked for it."""
    return isinstance(failure, ErrorRecord) and failure.kind == Preempted.__name__


def exception_of(failure: Death | ErrorRecord) -> str | None:
    """The class of the exception that a rank raised; None for a process that died without one."""
    return failure.kind if isinstance(failure, ErrorRecord) else None


def _last_lines(path: Path) -> str:
    lines = last_bytes(path).decode(errors="replace").splitlines()[-NUM_LAST_LINES:]
    return "\n".join(f"    {line[-MAX_LINE:]}" for line in lines) or f"    ({tr('empty')})"
