"""How the launchers of several nodes find each other before any rank starts, and compare what they were asked for.

Node 0 listens on the port above the scheduler's until all nodes have joined; the others call until it answers. Each
side proves that it knows the job's secret before the other trusts it: node 0 sends a challenge; the other introduces
itself, with a proof and a challenge of its own; node 0 answers with a proof, and welcomes all when all are there.
"""

import ipaddress
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.connection import Connection
from mindnlp_dp_plugin.job.error_record import printable
from mindnlp_dp_plugin.job.secret import is_proof, prove
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.ports import LONGEST_WAIT_S, control_port
from mindnlp_dp_plugin.launch.rendezvous.agreement import Coordinator, Member, Participant, SingleNode
from mindnlp_dp_plugin.launch.restarts import Restarts
from mindnlp_dp_plugin.launch.signals import Signals
from mindnlp_dp_plugin.launch.terminal import tell
from mindnlp_dp_plugin.version import __version__

POLL_S = 0.1
CALL_S = 2
NOTICE_S = 5
LAST_CALL_S = 30  # for the nodes that are still expected, once enough are here
NEWCOMERS_S = 2  # for others, which may wait to come back
INTRODUCTION_S = 10  # in which a newcomer has to say who it is
MAX_NEWCOMERS = 256
SAME_SECRET = Message("give all nodes the same (MINDNLP_DP_SECRET or --secret-file).")


@contextmanager
def rendezvous(job: Job, signals: Signals, restarts: Restarts) -> Iterator[tuple[Job, Member]]:
    """Wait for the launchers of all nodes, and stay connected within the context. All nodes must call it.

    A stop signal ends the wait. If the job goes on without nodes, the rest is not waited for long once enough are here.

    Args:
        job: What this node was asked for.
        signals: The user's stop signals.
        restarts: Those of node 0 become those of a node that joins later.

    Yields:
        The job, with this node's place in it, and the member.

    Raises:
        DataParallelError: If nodes were asked for different things, or not all join in time.
    """
    if job.seats:
        job = replace(job, num_nodes=job.seats.most, node_rank=job.seats.own)
    if job.num_nodes == 1:
        yield job, SingleNode()
        return
    timeout = DataParallelConfig.from_env().timeout
    deadline = Deadline(timeout if job.seats else min(timeout, LONGEST_WAIT_S))
    if job.node_rank == 0:
        with closing(RendezvousServer(job)) as server:
            yield server.wait(signals, deadline, restarts), Coordinator(*server.places())
        return
    while connection := call_node_0(job, signals, deadline):
        with closing(connection):
            if welcome := wait_for_welcome(connection, job, signals, deadline):
                restarts.adopt(welcome["restarts"])
                job = job.at_start(welcome["start"])
                yield (
                    replace(job, num_nodes=welcome["num_nodes"], node_rank=welcome["node_rank"]),
                    Participant(connection),
                )
                return
    yield job, SingleNode()


class Deadline:
    """A limit in seconds for a wait; the user is told, once, if it takes long."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._began = time.monotonic()
        self._has_told = False

    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() - self._began > self.seconds

    def tell(self, whom: str) -> None:
        """Tell the user, after a while, which nodes are missing."""
        if not self._has_told and time.monotonic() - self._began > NOTICE_S:
            self._has_told = True
            tell(tr("waiting up to {seconds:g} s for {whom}", seconds=self.seconds, whom=whom))


def call_node_0(job: Job, signals: Signals, deadline: Deadline) -> Connection | None:
    """Connect to node 0 until it answers or a stop signal comes.

    Raises:
        DataParallelError: If it does not answer.
    """
    address = (job.master_addr, control_port(job.master_port))
    while not signals.stop:
        try:
            connection = Connection(socket.create_connection(address, CALL_S), job.master_addr)
            connection.watch_link()
            return connection
        except OSError as error:
            if deadline.is_over():
                raise DataParallelError(
                    "--master-addr {address} --master-port {master_port}: node 0 cannot be reached at port "
                    "{control_port} after {seconds:g} s ({error}). Is mindnlp-dp run started there with --node-rank 0, "
                    "and are both ports open?{hint}",
                    address=address[0],
                    master_port=job.master_port,
                    control_port=address[1],
                    seconds=deadline.seconds,
                    error=error.strerror or error,
                    hint=hint_for(address[0]),
                ) from None
        deadline.tell(tr("node 0 at {address}:{port}", address=address[0], port=address[1]))
        signals.wait(POLL_S)


def wait_for_welcome(connection: Connection, job: Job, signals: Signals, deadline: Deadline) -> dict[str, Any] | None:
    """Introduce this node, and wait until all nodes have joined.

    Returns:
        What node 0 tells this node; None after a stop signal, or if a job that may lose nodes began without this one.

    Raises:
        DataParallelError: If node 0 refuses, leaves, or does not know the job's secret.
    """
    challenge, is_proven = secrets.token_hex(16), not job.secret
    while not signals.stop:
        for message in connection.receive():
            if "refused" in message:
                raise DataParallelError(printable(str(message["refused"])))
            if "challenge" in message:
                introduce(connection, job, str(message["challenge"]), challenge)
            is_proven |= "proof" in message and is_proof(message["proof"], job.secret, "coordinator", challenge, None)
            if "welcome" in message:
                if is_proven:
                    return message["welcome"]
                raise DataParallelError(
                    "node 0 ({address}) does not know this job's secret: {hint}",
                    address=connection.address,
                    hint=SAME_SECRET,
                )
        if connection.lost and job.seats and not deadline.is_over():
            signals.wait(POLL_S)
            return None
        if connection.lost:
            raise DataParallelError(
                "node 0 ({address}) left before all nodes had come ({lost}): see what it says.",
                address=connection.address,
                lost=connection.lost,
            )
        deadline.tell(tr("the other nodes"))
        signals.wait(POLL_S)


def introduce(connection: Connection, job: Job, their_challenge: str, challenge: str) -> None:
    """Send this node's name with a proof, and challenge the other side."""
    said = {
        "node_rank": job.node_rank,
        "name": socket.gethostname(),
        "asked_for": what_was_asked_for(job),
        "challenge": challenge,
    }
    proof = job.secret and prove(job.secret, "participant", their_challenge, said)
    connection.send(**said, proof=proof)


def is_introduction(said: dict[str, Any]) -> bool:
    """Whether this is what ``introduce`` sends, apart from the proof; nothing in it is nested deeper."""
    return (
        said.keys() == {"node_rank", "name", "asked_for", "challenge"}
        and type(said["node_rank"]) is int
        and isinstance(said["name"], str)
        and isinstance(said["challenge"], str)
        and isinstance(said["asked_for"], dict)
        and all(isinstance(value, int | str) for value in said["asked_for"].values())
    )


def what_was_asked_for(job: Job) -> dict[str, int | str]:
    """The values that must be the same on all nodes, by option."""
    asked_for = {
        "--nnodes": f"{job.seats.least}:{job.seats.most}" if job.seats else job.num_nodes,
        "--nproc": job.nproc,
        "--backend": job.backend,
        "--max-restarts": job.max_restarts,
        "version": __version__,
    }
    return asked_for if job.seats else {**asked_for, "start": job.restart + 1}  # who comes back does not know the start


def hint_for(address: str) -> str:
    """A hint for an address that means another machine on each node."""
    if not ipaddress.ip_address(address).is_loopback:
        return ""
    return " " + tr("{address} is each machine's own: give the address of node 0 in the network.", address=address)


@dataclass(eq=False)
class Newcomer:
    """A connection whose node has not proved yet who it is."""

    connection: Connection
    challenge: str = field(default_factory=lambda: secrets.token_hex(16))
    since: float = field(default_factory=time.monotonic)


class RendezvousServer:
    """Receives the other nodes on node 0. A stranger costs no more than a connection.

    Args:
        job: Node 0's job.

    Attributes:
        nodes: The connection to each node that has joined, by node rank.
        names: The names of those nodes.
    """

    def __init__(self, job: Job):
        self._job = job
        address = (job.bind_address or job.master_addr, control_port(job.master_port))
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._listener = socket.create_server(address, family=family, backlog=MAX_NEWCOMERS)
        self._listener.setblocking(False)
        self._newcomers: list[Newcomer] = []
        self._changed_at = time.monotonic()  # when a node came or left
        self.nodes: dict[int, Connection] = {}
        self.names: dict[int, str] = {}

    def wait(self, signals: Signals, deadline: Deadline, restarts: Restarts) -> Job:
        """Wait until all nodes have joined, or enough have; then accept no more connections.

        Returns:
            The job with the nodes that have joined.

        Raises:
            DataParallelError: If nodes are missing or were asked for something else; nodes that have joined are told.
        """
        while (missing := self._missing()) and not self._has_enough() and not signals.stop:
            if deadline.is_over():
                address, port = self._job.master_addr, self._job.master_port
                error = DataParallelError(
                    "--nnodes {num_nodes}: after {seconds:g} s not here: {missing}. Give the command on each node, "
                    "with its own --node-rank; ports {port} and {control_port} of {address} must be open to it.{hint}",
                    num_nodes=self._job.num_nodes,
                    seconds=deadline.seconds,
                    missing=missing,
                    port=port,
                    control_port=control_port(port),
                    address=address,
                    hint=hint_for(address),
                )
                self._refuse(error)
            deadline.tell(missing)
            self.look()
            signals.wait(POLL_S)
        if signals.stop:
            return self._job
        self._listener.close()
        for newcomer in self._newcomers:
            newcomer.connection.close()
        job = replace(self._job, num_nodes=1 + len(self.nodes))
        for node_rank, node in self.places()[0].items():
            told = {"node_rank": node_rank, "num_nodes": job.num_nodes, "start": job.restart}
            node.send(welcome={**told, "restarts": restarts.as_message()})
        return replace(job, seats=job.seats and replace(job.seats, taken=frozenset({0, *self.nodes})))

    def places(self) -> tuple[dict[int, Connection], dict[int, str]]:
        """The connection to each node that has joined, and its name, by its rank among them."""
        seats = sorted(self.nodes)
        return dict(enumerate((self.nodes[s] for s in seats), 1)), dict(enumerate((self.names[s] for s in seats), 1))

    def close(self) -> None:
        """Close all connections."""
        for connection in (*self.nodes.values(), *(newcomer.connection for newcomer in self._newcomers)):
            connection.close()
        self._listener.close()

    def look(self) -> None:
        """Accept connections and read their messages. Never waits."""
        self._accept()
        for node_rank, node in list(self.nodes.items()):
            list(node.receive())
            if node.lost:  # stopped, and perhaps started again
                node.close()
                del self.nodes[node_rank]
                self._changed_at = time.monotonic()
        for newcomer in list(self._newcomers):
            said = next(newcomer.connection.receive(), None)
            is_received = said is not None and self._receive(newcomer, said)
            is_too_slow = time.monotonic() - newcomer.since > INTRODUCTION_S
            if not is_received and (said is not None or newcomer.connection.lost or is_too_slow):
                newcomer.connection.close()
            elif not is_received:
                continue
            self._newcomers.remove(newcomer)

    def _missing(self):
        ranks = (rank for rank in range(1, self._job.num_nodes) if rank not in self.nodes)
        return ", ".join(tr("node {node}", node=rank) for rank in ranks)

    def _has_enough(self):
        """Whether a job that may lose nodes begins without those that are missing."""
        seats, present = self._job.seats, {0, *self.nodes}
        if seats is None or len(present) < seats.least:
            return False
        return time.monotonic() - self._changed_at > (NEWCOMERS_S if present >= seats.taken else LAST_CALL_S)

    def _accept(self):
        while True:
            try:
                accepted, (address, *_) = self._listener.accept()
            except OSError:  # nobody, nobody any more, or no more descriptors
                return
            if len(self._newcomers) == MAX_NEWCOMERS:
                self._newcomers.pop(0).connection.close()
            newcomer = Newcomer(Connection(accepted, address))
            newcomer.connection.watch_link()
            newcomer.connection.send(challenge=newcomer.challenge)
            self._newcomers.append(newcomer)

    def _receive(self, newcomer: Newcomer, said: dict) -> bool:
        """Accept another node of this job; strangers get no answer."""
        proof = said.pop("proof", None)
        if not is_introduction(said):
            return False
        secret, node_rank, name = self._job.secret, said["node_rank"], printable(said["name"])
        if secret and not is_proof(proof, secret, "participant", newcomer.challenge, said):
            why = tr("this node does not know this job's secret: {hint}", hint=SAME_SECRET)
            newcomer.connection.send(refused=why)
            return False
        if proof and not secret:
            why = tr("node 0 does not know this job's secret: {hint}", hint=SAME_SECRET)
            newcomer.connection.send(refused=why)
            return False
        for what, value in what_was_asked_for(self._job).items():
            if (theirs := said["asked_for"].get(what)) != value:
                error = DataParallelError(
                    "node {node_rank} ({name}) was started with {what} {theirs}, node 0 with {value}: give the same on "
                    "all nodes.",
                    node_rank=node_rank,
                    name=name,
                    what=what,
                    theirs=printable(str(theirs)),
                    value=value,
                )
                self._refuse(error, newcomer)
        if not 1 <= node_rank < self._job.num_nodes:
            return False
        if node_rank in self.nodes:
            error = DataParallelError(
                "--node-rank {node_rank} was given on two nodes, {first} and {second}.",
                node_rank=node_rank,
                first=self.names[node_rank],
                second=name,
            )
            self._refuse(error, newcomer)
        self.nodes[node_rank], self.names[node_rank] = newcomer.connection, name
        self._changed_at = time.monotonic()
        if secret:
            newcomer.connection.send(proof=prove(secret, "coordinator", said["challenge"], None))
        return True

    def _refuse(self, error, newcomer=None):
        for connection in (*self.nodes.values(), *([newcomer.connection] if newcomer else [])):
            connection.send(refused=str(error))
        raise error
