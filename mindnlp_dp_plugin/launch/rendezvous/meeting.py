"""How the launchers of several nodes find each other before any rank starts, and compare what they were asked for.

Node 0 listens on the port above the scheduler's until all nodes have joined; the others connect until it answers. Each
side proves that it knows the job's secret before the other trusts it.
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.ports import LONGEST_WAIT_S
from mindnlp_dp_plugin.launch.rendezvous.caller import call_node_0, take_place, wait_for_welcome
from mindnlp_dp_plugin.launch.rendezvous.deadline import Deadline
from mindnlp_dp_plugin.launch.rendezvous.member import Member
from mindnlp_dp_plugin.launch.rendezvous.participants import Coordinator, Participant, SingleNode
from mindnlp_dp_plugin.launch.rendezvous.server import RendezvousServer
from mindnlp_dp_plugin.launch.restarts import Restarts
from mindnlp_dp_plugin.launch.signals import Signals


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
                yield take_place(job, restarts, welcome), Participant(connection)
                return
    yield job, SingleNode()
