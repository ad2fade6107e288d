"""What the launchers of several hosts tell each other, so that a job that fails on one host ends on all.

Each keeps one connection to host 0, made by ``meeting``. When a rank fails, host 0 asks everybody else whether one of
theirs was first, and tells all of the first failure; then all end.
"""

import time
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone

from mindnlp_dp_plugin.launch.rendezvous.connection import Connection

SETTLE_S = 0.5  # for a rank of this host, if it was the first to fail, to be noticed
ANSWER_S = 4

STOPPED, VANISHED, DIED, RAISED = range(4)  # what brings the others about comes first


@dataclass(frozen=True)
class Failure:
    """What ends a job, as hosts tell each other of it.

    Attributes:
        node_rank: The host where it happened.
        words: Who failed, where, and how.
        exit_code: What every launcher ends with.
        kind: ``STOPPED`` (by the user), ``VANISHED`` (a host), ``DIED`` (a rank, without a word) or ``RAISED``.
        seconds_ago: How long before it was told it happened: clocks of nodes differ.
        rank: The rank that failed; None if it is none.
        node: The name of the node where it happened; None if that has vanished.
        exception: The class of the exception; None if there was none.
    """

    node_rank: int
    words: str
    exit_code: int
    kind: int
    seconds_ago: float = 0.0
    rank: int | None = None
    node: str | None = None
    exception: str | None = None

    def as_result(self) -> dict:
        """What ``result.json`` says of it."""
        happened = datetime.now(timezone.utc) - timedelta(seconds=self.seconds_ago)
        return {
            "rank": self.rank,
            "node": self.node,
            "exception": self.exception,
            "message": self.words,
            "time": happened.isoformat(timespec="milliseconds"),
        }


class Alone:
    """The only host of a job, with nobody to ask."""

    def __init__(self):
        self._failure = None

    def report(self, failure: Failure) -> None:
        """Tell that the job has failed on this host. Of several calls the first counts."""
        self._failure = self._failure or failure

    def say_stopped(self, failure: Failure) -> None:
        """Tell that the user stops the job here."""

    def first_failure(self) -> Failure | None:
        """What made the job fail, once all hosts agree on it; None before. Never waits; to be called often."""
        return self._failure

    def are_all_done(self) -> bool:
        """Tell that the ranks of this host are done; whether all are. Never waits."""
        return True


class Coordinator:
    """Host 0's end of the talk: it hears of failures, asks who else has failed, and tells all which was first.

    Args:
        connections: To the launcher of each other host, by node rank.
        names: The names of those hosts.
    """

    def __init__(self, connections: dict[int, Connection], names: dict[int, str]):
        self._connections = connections
        self._names = names
        self._answers: dict[int, tuple[Failure | None, float]] = {}
        self._asked_at: float | None = None
        self._done: set[int] = set()
        self._first: Failure | None = None

    def report(self, failure: Failure) -> None:
        """As ``Alone.report``."""
        self._note(0, failure)

    def say_stopped(self, failure: Failure) -> None:
        """As ``Alone.say_stopped``."""
        self._tell_all(first=asdict(failure))

    def first_failure(self) -> Failure | None:
        """As ``Alone.first_failure``."""
        for node_rank, connection in self._connections.items():
            self._listen_to(node_rank, connection)
        if self._first is None and any(failure for failure, _ in self._answers.values()):
            self._ask()
        return self._first

    def are_all_done(self) -> bool:
        """As ``Alone.are_all_done``."""
        self._done.add(0)
        are_done = self._done == {0, *self._connections}
        if are_done:
            self._tell_all(done=True)
        return are_done

    def _listen_to(self, node_rank, connection):
        for message in connection.receive():
            if message.get("done"):
                self._done.add(node_rank)
            elif "failure" in message:
                self._note(node_rank, message["failure"] and Failure(**message["failure"]))
        if connection.lost:
            self._note(node_rank, self._vanished(node_rank, connection.lost))

    def _note(self, node_rank, failure):
        happened = time.monotonic() - (failure.seconds_ago if failure else 0)
        self._answers.setdefault(node_rank, (failure, happened))

    def _ask(self):
        """Once a host has failed, the others say whether they have, too; one that says nothing has vanished."""
        now = time.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            self._tell_all(question=True)
        if now - self._asked_at > SETTLE_S:
            self._note(0, None)
        if now - self._asked_at > ANSWER_S:
            for node_rank in self._connections:
                self._note(node_rank, self._vanished(node_rank, f"no answer for {ANSWER_S} s"))
        if len(self._answers) > len(self._connections):
            failures = [(failure, happened) for failure, happened in self._answers.values() if failure]
            self._first = min(failures, key=lambda known: (known[0].kind, known[1]))[0]
            self._tell_all(first=asdict(self._first))

    def _vanished(self, node_rank, how):
        return Failure(node_rank, f"host {node_rank} ({self._names[node_rank]}) has vanished: {how}", 1, VANISHED)

    def _tell_all(self, **message):
        for connection in self._connections.values():
            connection.send(**message)


class Participant:
    """The other end of the talk.

    Args:
        connection: To host 0's launcher.
    """

    def __init__(self, connection: Connection):
        self._connection = connection
        self._answered_at: float | None = None
        self._asked_at: float | None = None
        self._is_done = False
        self._are_all_done = False
        self._first: Failure | None = None

    def report(self, failure: Failure) -> None:
        """As ``Alone.report``."""
        if self._answered_at is None:
            self._answer(failure)

    def say_stopped(self, failure: Failure) -> None:
        """As ``Alone.say_stopped``."""
        self.report(failure)

    def first_failure(self) -> Failure | None:
        """As ``Alone.first_failure``."""
        for message in self._connection.receive():
            if "first" in message:
                self._first = Failure(**message["first"])
            self._are_all_done |= "done" in message
            if "question" in message:
                self._asked_at = time.monotonic()
        if self._first or self._are_all_done:
            return self._first
        now = time.monotonic()
        if self._answered_at is None and self._asked_at and now - self._asked_at > SETTLE_S:
            self._answer(None)
        if self._connection.lost:
            self._first = self._vanished(self._connection.lost)
        elif self._answered_at and now - self._answered_at > ANSWER_S + SETTLE_S:
            self._first = self._vanished(f"no answer for {ANSWER_S + SETTLE_S:g} s")
        return self._first

    def are_all_done(self) -> bool:
        """As ``Alone.are_all_done``."""
        if not self._is_done:
            self._is_done = True
            self._connection.send(done=True)
        return self._are_all_done

    def _answer(self, failure):
        self._answered_at = time.monotonic()
        self._connection.send(failure=failure and asdict(failure))

    def _vanished(self, how):
        return Failure(0, f"host 0 ({self._connection.address}) has vanished, as seen from here: {how}", 1, VANISHED)


Hosts = Alone | Coordinator | Participant
