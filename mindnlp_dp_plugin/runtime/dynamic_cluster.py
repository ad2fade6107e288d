"""Form MindSpore's cluster under launchers that do not know MindSpore: rank 0 starts the scheduler."""

import atexit
import math
import os
import signal
import socket
import subprocess
import time
from contextlib import suppress

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.cluster import OF_THE_SCHEDULER, SCHEDULER, cluster_variables, worker_variables
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.signals import end_with_parent, ignore_preemption
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.runtime.network import resolve

LAST_GOODBYE_S = 30  # for the other ranks to leave the cluster when rank 0 is done


def form(rank_info: RankInfo, timeout: float) -> None:
    """Make this process a worker of the cluster, before MindSpore is imported.

    Args:
        rank_info: Which rank this is, and the scheduler's address.
        timeout: Seconds to wait for the other ranks.

    Raises:
        DataParallelError: If the name of rank 0's node is unknown, or its scheduler has ended.
    """
    host, port = rank_info.scheduler
    address = resolve(host, timeout, tr("{launcher}: the node of rank 0,", launcher=rank_info.launcher))
    os.environ.setdefault("GLOG_v", "3")  # MindSpore's warnings about the cluster's setup would bury everything else
    shared = cluster_variables(rank_info.world_size, address, port, math.ceil(timeout))
    scheduler = None
    if rank_info.rank == 0:
        scheduler = _start_scheduler({**os.environ, **shared, **OF_THE_SCHEDULER})
    await_scheduler(address, port, timeout, scheduler)
    os.environ.update({**shared, **worker_variables(rank_info)})


def _start_scheduler(environ):
    """Start the scheduler; the kernel ends it with this process, which waits for it at a regular end."""

    def prepare():
        end_with_parent(signal.SIGKILL)
        ignore_preemption()

    scheduler = subprocess.Popen(SCHEDULER, env=environ, stdin=subprocess.DEVNULL, preexec_fn=prepare)
    atexit.register(_wait_for, scheduler)  # before MindSpore's own, which leave the cluster, so it runs after them
    return scheduler


def await_scheduler(address: str, port: int, timeout: float, scheduler: subprocess.Popen | None = None) -> None:
    """A worker that finds no scheduler tries again only after many seconds, so none looks before it listens.

    Args:
        address: Where it will listen.
        port: The port there.
        timeout: Seconds to wait.
        scheduler: Its process, on rank 0.

    Raises:
        DataParallelError: If the process has ended.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if scheduler is not None and scheduler.poll() is not None:
            raise DataParallelError(
                "MindSpore's scheduler, which rank 0 starts, has ended with status {status} before it listened on "
                "{address}:{port}: see its output above. The address must belong to rank 0's node, and the port must "
                "be free.",
                status=scheduler.returncode,
                address=address,
                port=port,
            )
        if _listens(address, port):
            return
        time.sleep(0.1)


def _listens(address, port):
    with suppress(OSError), socket.create_connection((address, port), timeout=1) as connection:
        # Where nobody listens, a connection that was given the same port as its own end meets itself.
        return connection.getsockname() != connection.getpeername()
    return False


def _wait_for(scheduler):
    with suppress(subprocess.TimeoutExpired):
        scheduler.wait(LAST_GOODBYE_S)
