"""The other nodes: they call node 0 until it answers, and wait for its welcome."""

import secrets
import socket
from dataclasses import replace
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.secret import is_proof
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.ports import control_port
from mindnlp_dp_plugin.launch.rendezvous.connection import Connection
from mindnlp_dp_plugin.launch.rendezvous.deadline import Deadline
from mindnlp_dp_plugin.launch.rendezvous.introduction import SAME_SECRET, hint_for, introduce
from mindnlp_dp_plugin.launch.rendezvous.member import printable
from mindnlp_dp_plugin.launch.restarts import Restarts
from mindnlp_dp_plugin.launch.signals import Signals

CALL_S = 2
POLL_S = 0.1


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


def wait_for_welcome(connection: Connection, job: Job, signals: Signals, deadline: Deadline) -> dict[str, Any] | None:
    """Introduce this node, and wait until all nodes have joined.

    Returns:
        What node 0 tells this node; None after a stop signal, or if a job that may lose nodes began without this one.

    Raises:
        DataParallelError: If node 0 refuses, leaves, or does not know the job's secret.
    """
    challenge, is_proven = secrets.token_hex(16), not job.secret
    while not signals.stop:
        messages = iter(connection.receive())
        for message in messages:
            if "refused" in message:
                raise DataParallelError(printable(str(message["refused"])))
            if "challenge" in message:
                introduce(connection, job, str(message["challenge"]), challenge)
            is_proven |= "proof" in message and is_proof(message["proof"], job.secret, "coordinator", challenge, None)
            if "welcome" in message:
                if is_proven:
                    connection.put_back(messages)
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


def take_place(job: Job, restarts: Restarts, welcome: dict[str, Any]) -> Job:
    """The job with the place in it that node 0 gave this node."""
    restarts.adopt(welcome["restarts"])
    return replace(job.at_start(welcome["start"]), num_nodes=welcome["num_nodes"], node_rank=welcome["node_rank"])
