"""How the launchers of several hosts find each other, before any rank is started, and see that they want the same.

Host 0's listens on the port above that of the scheduler until all have come; the others call until it answers.
"""

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.ports import control_port
from mindnlp_dp_plugin.launch.rendezvous.connection import Connection
from mindnlp_dp_plugin.launch.rendezvous.participants import Alone, Coordinator, Hosts, Participant
from mindnlp_dp_plugin.launch.signals import Signals
from mindnlp_dp_plugin.version import __version__

LONGEST_WAIT_S = 600  # as long as MindSpore's scheduler waits for its workers
CALL_S = 2
POLL_S = 0.1
NOTICE_S = 5


@contextmanager
def rendezvous(job: Job, signals: Signals) -> Iterator[Hosts]:
    """Wait for the launchers of all hosts; as long as the context lasts they can talk. To be called on all hosts.

    If the user says stop meanwhile, it waits no longer.

    Raises:
        DataParallelError: They were asked for different things, or have not all come in time.
    """
    if job.num_nodes == 1:
        yield Alone()
        return
    patience = Deadline(min(DataParallelConfig.from_env().timeout, LONGEST_WAIT_S))
    if job.node_rank == 0:
        with closing(RendezvousServer(job)) as reception:
            reception.wait(signals, patience)
            yield Coordinator(reception.hosts, reception.names)
    elif connection := call_host_zero(job, signals, patience):
        with closing(connection):
            wait_for_welcome(connection, job, signals, patience)
            yield Participant(connection)
    else:
        yield Alone()


class Deadline:
    """A limited one, of which the user is told when it is needed.

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
        """Say, once, and not at once, who is waited for."""
        if not self._has_told and time.monotonic() - self._began > NOTICE_S:
            self._has_told = True
            print(f"mindnlp-dp: waiting up to {self.seconds:g} s for {whom}", file=sys.stderr, flush=True)


class RendezvousServer:
    """Where host 0 receives the others.

    Args:
        job: Host 0's.

    Attributes:
        hosts: The connection to each host that has come, by node rank.
        names: What those machines are called.
    """

    def __init__(self, job: Job):
        self._job = job
        self._listener = socket.create_server((job.master_addr, control_port(job.master_port)))
        self._listener.setblocking(False)
        self._newcomers: list[Connection] = []
        self.hosts: dict[int, Connection] = {}
        self.names: dict[int, str] = {}

    def wait(self, signals: Signals, patience: Deadline) -> None:
        """Until all are here. Then nobody else is received.

        Raises:
            DataParallelError: They do not come, or were asked for something else; those who are here are told.
        """
        while (missing := self._missing()) and not signals.stop:
            if patience.is_over():
                address, port = self._job.master_addr, self._job.master_port
                self._refuse(
                    f"--nnodes {self._job.num_nodes}: after {patience.seconds:g} s not here: {missing}. Give the "
                    f"command on each host, with its own --node-rank; ports {port} and {control_port(port)} of "
                    f"{address} must be open to it."
                )
            patience.tell(missing)
            self._look()
            signals.wait(POLL_S)
        if not missing:
            self._listener.close()
            for host in self.hosts.values():
                host.send(welcome=True)

    def close(self) -> None:
        """Hang up on everybody."""
        for connection in (self._listener, *self.hosts.values(), *self._newcomers):
            connection.close()

    def _missing(self):
        return ", ".join(f"host {rank}" for rank in range(1, self._job.num_nodes) if rank not in self.hosts)

    def _look(self):
        with suppress(BlockingIOError):
            accepted, (address, _) = self._listener.accept()
            self._newcomers.append(Connection(accepted, address))
        for node_rank, host in list(self.hosts.items()):
            host.receive()
            if host.lost:  # stopped, and perhaps started again
                del self.hosts[node_rank]
        for newcomer in list(self._newcomers):
            messages = newcomer.receive()
            if messages and messages[0].keys() == {"node_rank", "name", "asked_for"}:  # else a stranger
                self._receive(newcomer, **messages[0])
            if messages or newcomer.lost:
                self._newcomers.remove(newcomer)

    def _receive(self, newcomer, node_rank, name, asked_for):
        for what, value in what_was_asked_for(self._job).items():
            if (theirs := asked_for.get(what)) != value:
                self._refuse(
                    f"host {node_rank} ({name}) was started with {what} {theirs}, host 0 with {value}: "
                    "give the same on all hosts."
                )
        if node_rank in self.hosts:
            self._refuse(f"--node-rank {node_rank} was given on two hosts, {self.names[node_rank]} and {name}.")
        self.hosts[node_rank], self.names[node_rank] = newcomer, name

    def _refuse(self, why):
        for connection in (*self.hosts.values(), *self._newcomers):
            connection.send(refused=why)
        raise DataParallelError(why)


def what_was_asked_for(job: Job) -> dict[str, int | str]:
    """What must be the same on all hosts, by the name of the option."""
    return {"--nnodes": job.num_nodes, "--nproc": job.nproc, "--backend": job.backend, "version": __version__}


def call_host_zero(job: Job, signals: Signals, patience: Deadline) -> Connection | None:
    """Call host 0 until it answers, or the user says stop.

    Raises:
        DataParallelError: It does not.
    """
    address = (job.master_addr, control_port(job.master_port))
    while not signals.stop:
        try:
            return Connection(socket.create_connection(address, CALL_S), job.master_addr)
        except OSError as error:
            if patience.is_over():
                raise DataParallelError(
                    f"--master-addr {address[0]} --master-port {job.master_port}: host 0 cannot be reached at port "
                    f"{address[1]} after {patience.seconds:g} s ({error.strerror or error}). Is mindnlp-dp run started "
                    "there with --node-rank 0, and are both ports open?"
                ) from None
        patience.tell(f"host 0 at {address[0]}:{address[1]}")
        signals.wait(POLL_S)


def wait_for_welcome(connection: Connection, job: Job, signals: Signals, patience: Deadline) -> None:
    """Introduce this host, and wait until the others are there, too.

    Raises:
        DataParallelError: Host 0 refuses, or leaves.
    """
    connection.send(node_rank=job.node_rank, name=socket.gethostname(), asked_for=what_was_asked_for(job))
    while not signals.stop:
        for message in connection.receive():
            if "refused" in message:
                raise DataParallelError(message["refused"])
            if "welcome" in message:
                return
        if connection.lost:
            raise DataParallelError(
                f"host 0 ({connection.address}) left before all hosts had come ({connection.lost}): see what it says."
            )
        patience.tell("the other hosts")
        signals.wait(POLL_S)
