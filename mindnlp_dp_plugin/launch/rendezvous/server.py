"""Node 0: it receives the other nodes, and tells strangers from them."""

import secrets
import socket
import time
from dataclasses import replace

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.secret import is_proof, prove
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.ports import control_port
from mindnlp_dp_plugin.launch.rendezvous.connection import Connection
from mindnlp_dp_plugin.launch.rendezvous.deadline import Deadline
from mindnlp_dp_plugin.launch.rendezvous.introduction import (
    SAME_SECRET,
    hint_for,
    is_introduction,
    what_was_asked_for,
)
from mindnlp_dp_plugin.launch.rendezvous.member import printable
from mindnlp_dp_plugin.launch.restarts import Restarts
from mindnlp_dp_plugin.launch.signals import Signals

POLL_S = 0.1
LAST_CALL_S = 30  # for the nodes that are still expected, once enough are here
NEWCOMERS_S = 2  # for others, which may wait to come back
INTRODUCTION_S = 10  # in which a newcomer has to say who it is
MAX_NEWCOMERS = 256


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
        seats = dict(enumerate(sorted(self.nodes), 1))
        return (
            {rank: self.nodes[seat] for rank, seat in seats.items()},
            {rank: self.names[seat] for rank, seat in seats.items()},
        )

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
                self._changed_at = time.monotonic()
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
            self._newcomers.append(Newcomer(Connection(accepted, address)))

    def _receive(self, newcomer: Newcomer, said: dict) -> bool:
        """Accept another node of this job; strangers get no answer."""
        proof = said.pop("proof", None)
        if not is_introduction(said):
            return False
        node_rank, name, asked_for = said["node_rank"], said["name"], said["asked_for"]
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
        self._changed_at = time.monotonic()
        if self._job.secret:
            newcomer.connection.send(proof=prove(self._job.secret, "coordinator", said["challenge"], None))
        return True

    def _refuse(self, error, newcomer=None):
        for connection in (*self.nodes.values(), *([newcomer.connection] if newcomer else [])):
            connection.send(refused=str(error))
        raise error
