"""What a check of the doctor comes back with."""

from dataclasses import asdict, dataclass, field
from enum import Enum


class Level(str, Enum):
    """How bad it is: ``failure`` means that training would fail."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True)
class Finding:
    """One thing the doctor looked at.

    Attributes:
        check: Its name.
        level: How bad it is.
        found: What was found, in one line.
        hint: What to do about it; empty if all is well.
        measured: Numbers for machines, by name.
    """

    check: str
    level: Level
    found: str
    hint: str = ""
    measured: dict = field(default_factory=dict)

    def as_dict(self) -> dict:
        """The finding as JSON can hold it."""
        fields = {**asdict(self), "level": self.level.value}
        fields["way_out"] = fields.pop("hint")
        return fields


def ok(check: str, found: str, **measured) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, found, measured=measured)


def warning(check: str, found: str, hint: str) -> Finding:
    """Training goes on, but slowly, or not in every way of starting it."""
    return Finding(check, Level.WARNING, found, hint)


def failure(check: str, found: str, hint: str) -> Finding:
    """Training would fail."""
    return Finding(check, Level.FAILURE, found, hint)
