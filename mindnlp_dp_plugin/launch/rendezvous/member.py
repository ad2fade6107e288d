"""The contract of a node in a job: how nodes agree on how the job ends."""

import re
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta, timezone
from enum import IntEnum
from typing import Any

MAX_TEXT = 4000
UNPRINTABLE = r"[^\x20-\x7e\u00a1-\u1fff\u2010-\u2027\u2070-\ud7ff\uff01-\uffee]"


class Kind(IntEnum):
    """What ends a job. Of several at a time, the lowest caused the others."""

    STOPPED = 0  # by the user
    VANISHED = 1  # a node whose connection is lost
    DIED = 2  # a rank, without a word
    RAISED = 3  # a rank, with an exception
    SILENT = 4  # a node that does not answer, perhaps a slow one: blamed only if there is no other failure


@dataclass(frozen=True)
class Failure:
    """A failure, as nodes report it to each other.

    Attributes:
        node_rank: The node where it happened.
        words: Who failed, where, and how.
        exit_code: The exit code of every launcher.
        kind: What happened.
        seconds_ago: The failure's age when it was reported, as clocks of nodes differ.
        rank: The rank that failed; None if it was not a rank.
        node: The name of the node where it happened; None if that has vanished.
        exception: The class of the exception; None if there was none.
        message: Its text, as ``printable`` makes it: all nodes compare the same.
        step: The optimizer step that ranks of that node had begun; None if they were not training.
    """

    node_rank: int
    words: str
    exit_code: int
    kind: int
    seconds_ago: float = 0.0
    rank: int | None = None
    node: str | None = None
    exception: str | None = None
    message: str | None = None
    step: int | None = None

    def as_message(self) -> dict[str, Any]:
        """The failure in a form JSON can hold."""
        return {**asdict(self), "kind": int(self.kind)}

    @classmethod
    def from_message(cls, message: Any) -> "Failure":
        """The failure that another node reports; its texts are made safe to show.

        Raises:
            ValueError: If the message is invalid.
        """
        types = {"node_rank": int, "words": str, "exit_code": int, "kind": int, "seconds_ago": (int, float)}
        types |= {name: (int, type(None)) for name in ("rank", "step")}
        types |= {name: (str, type(None)) for name in ("node", "exception", "message")}
        if not isinstance(message, dict) or message.keys() != {field.name for field in fields(cls)}:
            raise ValueError("no failure")
        if any(isinstance(value, bool) or not isinstance(value, types[name]) for name, value in message.items()):
            raise ValueError("no failure")
        if not (0 <= message["exit_code"] < 256 and 0 <= message["seconds_ago"] < 1e6):
            raise ValueError("no failure")
        texts = {name: printable(value) if isinstance(value, str) else value for name, value in message.items()}
        return cls(**{**texts, "kind": Kind(message["kind"])})

    def as_result(self) -> dict[str, Any]:
        """The failure as an entry of ``result.json``."""
        happened = datetime.now(timezone.utc) - timedelta(seconds=self.seconds_ago)
        return {
            "rank": self.rank,
            "node": self.node,
            "exception": self.exception,
            "message": self.words,
            "time": happened.isoformat(timespec="milliseconds"),
        }


def printable(text: str) -> str:
    """Text from another node on one line, without control characters. Made so twice, it stays as it is."""
    shown = re.sub(UNPRINTABLE, lambda match: ascii(match[0])[1:-1], text[:MAX_TEXT])
    return shown[:MAX_TEXT]


class Member(ABC):
    """This node among those of a job. No method waits.

    Attributes:
        first_failure: The failure that ended the job, once all nodes agree on it.
        all_done: Whether the ranks of all nodes are done.
    """

    first_failure: Failure | None = None
    all_done: bool = False

    @abstractmethod
    def exchange(self) -> None:
        """Read messages of other nodes, and answer. Call it often, until the end."""

    @abstractmethod
    def report(self, failure: Failure) -> None:
        """Report that the job failed on this node; the first of several calls counts."""

    @abstractmethod
    def stop(self, failure: Failure) -> None:
        """Report that the user stops the job on this node."""

    @abstractmethod
    def finish(self) -> None:
        """Report that the ranks of this node are done."""
