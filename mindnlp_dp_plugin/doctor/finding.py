"""The result of a check of the doctor."""

from dataclasses import asdict, dataclass, field
from enum import Enum

from mindnlp_dp_plugin.language import tr


class Level(str, Enum):
    """How serious a finding is: ``failure`` means that training would fail."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


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

    def as_dict(self) -> dict:
        """The finding in a form JSON can hold."""
        return {**asdict(self), "level": self.level.value}


def ok(found: str, /, measured: dict | None = None, **fields) -> Finding:
    """No problem."""
    return Finding(Level.OK, tr(found, **fields), measured=measured or {})


def warning(found: str, way_out: str, /, **fields) -> Finding:
    """Training runs, but slower, or not with every launcher."""
    return Finding(Level.WARNING, tr(found, **fields), tr(way_out, **fields))


def failure(found: str, way_out: str, /, **fields) -> Finding:
    """Training would fail."""
    return Finding(Level.FAILURE, tr(found, **fields), tr(way_out, **fields))
