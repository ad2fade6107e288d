"""What a node says of itself when it comes, and what node 0 makes sure of."""

import ipaddress
import socket
from typing import Any

from mindnlp_dp_plugin.job.secret import prove
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.rendezvous.connection import Connection
from mindnlp_dp_plugin.version import __version__

SAME_SECRET = Message("give all nodes the same (MINDNLP_DP_SECRET or --secret-file).")


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
    is_own = ipaddress.ip_address(address).is_loopback
    if not is_own:
        return ""
    return " " + tr("{address} is each machine's own: give the address of node 0 in the network.", address=address)
