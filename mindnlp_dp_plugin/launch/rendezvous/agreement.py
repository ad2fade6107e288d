"""Agree with other nodes on how a job ends, so that a failure on one node ends it on all.

When a rank fails, node 0 asks all others whether one of theirs failed earlier, and reports the first failure to all;
then all end.
"""

import time
from abc import ABC, abstractmethod
from dataclasses import replace

from mindnlp_dp_plugin.job.connection import VANISHED_S, Connection
from mindnlp_dp_plugin.job.error_record import Cause, ErrorRecord
from mindnlp_dp_plugin.language import tr

SETTLE_S = 0.5  # for a rank of this node, if it was the first to fail, to be noticed
ANSWER_S = 4
PATIENCE_S = VANISHED_S + 1  # with node 0, which is seen to be gone sooner than that


class Member(ABC):
    """This node among those of a job. No method waits.

    Attributes:
        first_failure: The failure that ended the job, once all nodes agree on it.
        all_done: Whether the ranks of all nodes are done.
    """

    first_failure: ErrorRecord | None = None
    all_done: bool = False

    @abstractmethod
    def exchange(self) -> None:
        """Read messages of other nodes, and answer. Call it often, until the end."""

    @abstractmethod
    def report(self, failure: ErrorRecord) -> None:
        """Report that the job failed on this node; the first of several calls counts."""

    @abstractmethod
    def stop(self, failure: ErrorRecord) -> None:
        """Report that the user stops the job on this node."""

    @abstractmethod
    def finish(self) -> None:
        """Report that the ranks of this node are done."""


class SingleNode(Member):
    """The only node of a job."""

    def exchange(self):
        pass

    def report(self, failure):
        self.first_failure = self.first_failure or failure

    def stop(self, failure):
        pass

    def finish(self):
        self.all_done = True


class Coordinator(Member):
    """Node 0: it receives failures, asks who else has failed, and reports the first to all.

    Args:
        connections: The connection to each other node's launcher, by node rank.
        names: The names of those nodes.
    """

    def __init__(self, connections: dict[int, Connection], names: dict[int, str]):
        self._connections = connections
        self._names = names
        self._answers: dict[int, ErrorRecord | None] = {}
        self._asked_at: float | None = None
        self._done: set[int] = set()

    def exchange(self):
        for node_rank, connection in self._connections.items():
            self._hear(node_rank, connection)
        if self.first_failure is None and any(self._answers.values()):
            self._settle()
        if not self.all_done and self._done == {0, *self._connections}:
            self.all_done = True
            self._tell_all(done=True)

    def report(self, failure):
        self._answers.setdefault(0, failure)

    def stop(self, failure):
        self._tell_all(first=failure.as_message())

    def finish(self):
        self._done.add(0)

    def _hear(self, node_rank, connection):
        for message in connection.receive():
            if message.get("done") is True:
                self._done.add(node_rank)
            elif "failure" in message:
                self._hear_failure(node_rank, connection, message["failure"])
        if connection.lost:
            name, why = self._names[node_rank], connection.lost
            words = tr("node {node} ({name}) has vanished: {why}", node=node_rank, name=name, why=why)
            self._answers.setdefault(node_rank, of_node(node_rank, Cause.VANISHED, words))

    def _hear_failure(self, node_rank, connection, told):
        try:
            failure = told and replace(ErrorRecord.from_message(told), node_rank=node_rank)
        except ValueError:
            connection.drop()
        else:
            self._answers.setdefault(node_rank, failure)

    def _settle(self):
        """After a failure, wait for the others to report theirs."""
        now = time.monotonic()
        if self._asked_at is None:
            self._asked_at = now
            self._tell_all(question=True)
        if now - self._asked_at > SETTLE_S:
            self._answers.setdefault(0, None)
        if now - self._asked_at > ANSWER_S:
            for node_rank, name in self._names.items():
                known = {"node": node_rank, "name": name, "seconds": ANSWER_S}
                words = tr("node {node} ({name}) does not answer for {seconds} s", **known)
                self._answers.setdefault(node_rank, of_node(node_rank, Cause.SILENT, words))
        if len(self._answers) > len(self._connections):
            known = [failure for failure in self._answers.values() if failure]
            first = min(known, key=lambda failure: (failure.cause, failure.time_ns))
            silent = [failure.words for failure in known if failure.cause == Cause.SILENT and failure is not first]
            self.first_failure = replace(first, words="; ".join([first.words, *silent]))
            self._tell_all(first=self.first_failure.as_message())

    def _tell_all(self, **message):
        for connection in self._connections.values():
            connection.send(**message)


class Participant(Member):
    """Any other node.

    Args:
        connection: The connection to node 0's launcher.
    """

    def __init__(self, connection: Connection):
        self._connection = connection
        self._answered_at: float | None = None
        self._asked_at: float | None = None
        self._own: ErrorRecord | None = None
        self._is_done = False

    def exchange(self):
        for message in self._connection.receive():
            self._hear(message)
        if self.first_failure or self.all_done:
            return
        now = time.monotonic()
        if self._answered_at is None and self._asked_at and now - self._asked_at > SETTLE_S:
            self._answer(None)
        known = {"address": self._connection.address, "why": self._connection.lost, "seconds": PATIENCE_S}
        if self._connection.lost:
            words = tr("node 0 ({address}), as seen from here, has vanished: {why}", **known)
            vanished = of_node(0, Cause.VANISHED, words)
            self.first_failure = min(filter(None, (self._own, vanished)), key=lambda failure: failure.cause)
        elif self._answered_at and now - self._answered_at > PATIENCE_S:
            words = tr("node 0 ({address}), as seen from here, does not answer for {seconds:g} s", **known)
            self.first_failure = self._own or of_node(0, Cause.SILENT, words)

    def report(self, failure):
        if self._answered_at is None:
            self._own = failure
            self._answer(failure)

    def stop(self, failure):
        self.report(failure)

    def finish(self):
        if not self._is_done:
            self._is_done = True
            self._connection.send(done=True)

    def _hear(self, message):
        if "first" in message:
            try:
                self.first_failure = ErrorRecord.from_message(message["first"])
            except ValueError:
                self._connection.drop()
        self.all_done |= message.get("done") is True
        if "question" in message:
            self._asked_at = time.monotonic()

    def _answer(self, failure):
        self._answered_at = time.monotonic()
        self._connection.send(failure=failure and failure.as_message())


def of_node(node_rank: int, cause: Cause, words: str) -> ErrorRecord:
    """The failure of a whole node."""
    return ErrorRecord(None, None, time.time_ns(), 1, cause=cause, node_rank=node_rank, words=words)
