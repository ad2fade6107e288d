"""How the launchers of several nodes find each other before any rank starts, and compare what they were asked for.

Node 0 listens on the port above the scheduler's until all nodes have joined; the others connect until it answers. Each
side proves that it knows the job's secret before the other trusts it.
"""

import ipaddress
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.secret import is_proof, prove
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.ports import LONGEST_WAIT_S, control_port
from mindnlp_dp_plugin.launch.rendezvous.connection import Connection
from mindnlp_dp_plugin.launch.rendezvous.member import Member, printable
from mindnlp_dp_plugin.launch.rendezvous.participants import Coordinator, Participant, SingleNode
from mindnlp_dp_plugin.launch.signals import Signals
from mindnlp_dp_plugin.launch.terminal import tell
from mindnlp_dp_plugin.version import __version__

CALL_S = 2
POLL_S = 0.1
NOTICE_S = 5
INTRODUCTION_S = 10  # in which a newcomer has to say who it is
MAX_NEWCOMERS = 256
SAME_SECRET = Message("give all nodes the same (MINDNLP_DP_SECRET or --secret-file).")


@contextmanager
def rendezvous(job: Job, signals: Signals) -> Iterator[Member]:
    """Wait for the launchers of all nodes, and stay connected within the context. All nodes must call it.

    A stop signal ends the wait.

    Raises:
        DataParallelError: If nodes were asked for different things, or not all join in time.
    """
    if job.num_nodes == 1:
        yield SingleNode()
        return
    deadline = Deadline(min(DataParallelConfig.from_env().timeout, LONGEST_WAIT_S))
    if job.node_rank == 0:
        with closing(RendezvousServer(job)) as server:
            server.wait(signals, deadline)
            yield Coordinator(server.nodes, server.names)
    elif connection := call_node_0(job, signals, deadline):
        with closing(connection):
            wait_for_welcome(connection, job, signals, deadline)
            yield Participant(connection)
    else:
        yield SingleNode()


class Deadline:
    """A limit for a wait; the user is told if it takes long.

    Args:
        seconds: The limit.
    """

    def __init__(self, seconds: float):
        self.seconds = seconds
        self._began = time.monotonic()
        self._has_told = False

    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() - self._began > self.seconds

    def tell(self, whom: str) -> None:
        """Tell the user, once and after a while, which nodes are missing."""
        if not self._has_told and time.monotonic() - self._began > NOTICE_S:
            self._has_told = True
            tell(tr("waiting up to {seconds:g} s for {whom}", seconds=self.seconds, whom=whom))


class Newcomer:
    """A connection whose node has not proved yet who it is.

    Args:
        connection: The connection.
    """

    def __init__(self, connection: Connection):
        self.connection = connection
        self.challenge = secrets.token_hex(16)
        self._since = time.monotonic()
        connection.send(challenge=self.challenge)

    def is_too_slow(self) -> bool:
        """Whether it was silent for too long."""
        return time.monotonic() - self._since > INTRODUCTION_S


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
        self.nodes: dict[int, Connection] = {}
        self.names: dict[int, str] = {}

    def wait(self, signals: Signals, deadline: Deadline) -> None:
        """Wait until all nodes have joined; then accept no more connections.

        Raises:
            DataParallelError: If nodes are missing or were asked for something else; nodes that have joined are told.
        """
        while (missing := self._missing()) and not signals.stop:
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
        if not missing:
            self._listener.close()
            for newcomer in self._newcomers:
                newcomer.connection.close()
            for node in self.nodes.values():
                node.send(welcome=True)

    def close(self) -> None:
        """Close all connections."""
        for connection in (*self.nodes.values(), *(newcomer.connection for newcomer in self._newcomers)):
            connection.close()
        self._listener.close()

    def look(self) -> None:
        """Accept connections and read their messages. Never waits."""
        self._accept()
        for node_rank, node in list(self.nodes.items()):
            node.receive()
            if node.lost:  # stopped, and perhaps started again
                node.close()
                del self.nodes[node_rank]
        for newcomer in list(self._newcomers):
            messages = newcomer.connection.receive()
            is_received = bool(messages) and self._receive(newcomer, messages[0])
            if not is_received and (messages or newcomer.connection.lost or newcomer.is_too_slow()):
                newcomer.connection.close()
            elif not is_received:
                continue
            self._newcomers.remove(newcomer)

    def _missing(self):
        ranks = (rank for rank in range(1, self._job.num_nodes) if rank not in self.nodes)
        return ", ".join(tr("node {node}", node=rank) for rank in ranks)

    def _accept(self):
        while True:
            try:
                accepted, (address, *_) = self._listener.accept()
            except OSError:  # nobody, nobody any more, or no more descriptors
                return
            if len(self._newcomers) == MAX_NEWCOMERS:
                self._newcomers.pop(0).connection.close()
            self._newcomers.append(Newcomer(Connection(accepted, address)))

    def _receive(self, newcomer: Newcomer, said: dict) -> bool:
        """Accept another node of this job; strangers get no answer."""
        proof = said.pop("proof", None)
        if said.keys() != {"node_rank", "name", "asked_for", "challenge"}:
            return False
        node_rank, name, asked_for = said["node_rank"], said["name"], said["asked_for"]
        if type(node_rank) is not int or not isinstance(name, str) or not isinstance(asked_for, dict):
            return False
        if self._job.secret and not is_proof(proof, self._job.secret, "participant", newcomer.challenge, said):
            why = tr("this node does not know this job's secret: {hint}", hint=SAME_SECRET)
            newcomer.connection.send(refused=why)
            return False
        if proof and not self._job.secret:
            why = tr("node 0 does not know this job's secret: {hint}", hint=SAME_SECRET)
            newcomer.connection.send(refused=why)
            return False
        name = printable(name)
        for what, value in what_was_asked_for(self._job).items():
            if (theirs := asked_for.get(what)) != value:
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
        if self._job.secret:
            newcomer.connection.send(proof=prove(self._job.secret, "coordinator", str(said["challenge"]), None))
        return True

    def _refuse(self, error, newcomer=None):
        for connection in (*self.nodes.values(), *([newcomer.connection] if newcomer else [])):
            connection.send(refused=str(error))
        raise error


def what_was_asked_for(job: Job) -> dict[str, int | str]:
    """The values that must be the same on all nodes, by option."""
    return {
        "--nnodes": job.num_nodes,
        "--nproc": job.nproc,
        "--backend": job.backend,
        "--max-restarts": job.max_restarts,
        "start": job.restart + 1,
        "version": __version__,
    }


def hint_for(address: str) -> str:
    """A hint for an address that means another machine on each node."""
    is_own = ipaddress.ip_address(address).is_loopback
    if not is_own:
        return ""
    return " " + tr("{address} is each machine's own: give the address of node 0 in the network.", address=address)


def call_node_0(job: Job, signals: Signals, deadline: Deadline) -> Connection | None:
    """Connect to node 0 until it answers or a stop signal comes.

    Raises:
        DataParallelError: If it does not answer.
    """
    address = (job.master_addr, control_port(job.master_port))
    while not signals.stop:
        try:
            return Connection(socket.create_connection(address, CALL_S), job.master_addr)
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


def wait_for_welcome(connection: Connection, job: Job, signals: Signals, deadline: Deadline) -> None:
    """Introduce this node, and wait until all nodes have joined.

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
                    return
                raise DataParallelError(
                    "node 0 ({address}) does not know this job's secret: {hint}",
                    address=connection.address,
                    hint=SAME_SECRET,
                )
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
