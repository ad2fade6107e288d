"""The result of a check of the doctor."""

from dataclasses import asdict, dataclass, field
from enum import Enum


class Level(str, Enum):
    """How serious a finding is: ``failure`` means that training would fail."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        check: The check's name.
        level: How serious it is.
        found: What was found, in one line.
        way_out: A suggested fix; empty if there is no problem.
        measured: Measured numbers, by name.
    """

    check: str
    level: Level
    found: str
    way_out: str = ""
    measured: dict = field(default_factory=dict)

    def as_dict(self) -> dict:
        """The finding in a form JSON can hold."""
        return {**asdict(self), "level": self.level.value}


def ok(check: str, found: str, **measured) -> Finding:
    """No problem."""
    return Finding(check, Level.OK, found, measured=measured)


def warning(check: str, found: str, way_out: str) -> Finding:
    """Training runs, but slower, or not with every launcher."""
    return Finding(check, Level.WARNING, found, way_out)


def failure(check: str, found: str, way_out: str) -> Finding:
    """Training would fail."""
    return Finding(check, Level.FAILURE, found, way_out)
