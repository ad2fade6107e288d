"""The result of a check of the doctor."""

from dataclasses import dataclass, field
from enum import Enum
from subprocess import CompletedProcess

from mindnlp_dp_plugin.job.signals import name_of
from mindnlp_dp_plugin.language import Message, tr


class Level(str, Enum):
    """How serious a finding is: ``failure`` means that training would fail."""

    OK = Message("ok")
    WARNING = Message("warning")
    FAILURE = Message("failure")


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        level: How serious it is.
        found: What was found, in one line.
        way_out: A suggested fix; empty if there is no problem.
        measured: Measured numbers, by name.
    """

    level: Level
    found: str
    way_out: str = ""
    measured: dict = field(default_factory=dict)


def ok(found: str, /, measured: dict | None = None, **fields) -> Finding:
    """No problem."""
    return Finding(Level.OK, tr(found, **fields), measured=measured or {})


def warning(found: str, way_out: str, /, **fields) -> Finding:
    """Training runs, but slower, or not with every launcher."""
    return Finding(Level.WARNING, tr(found, **fields), tr(way_out, **fields))


def failure(found: str, way_out: str, /, **fields) -> Finding:
    """Training would fail."""
    return Finding(Level.FAILURE, tr(found, **fields), tr(way_out, **fields))


def last_words(ended: CompletedProcess) -> str:
    """Why a child process failed: what it wrote last, or the signal that ended it."""
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    if ended.returncode < 0:
        return tr("killed by {signal}", signal=name_of(-ended.returncode))
    return lines[-1] if lines else tr("exit status {status}", status=ended.returncode)
