"""MindSpore's dynamic cluster: the variables that make a process one of its workers, and its scheduler."""

import os
import sys

from mindnlp_dp_plugin.job.hardware import visible_devices
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.variables import LOCAL_RANK, LOCAL_WORLD_SIZE

OF_THE_SCHEDULER = {"MS_ROLE": "MS_SCHED"}
SCHEDULER = [sys.executable, "-c", "from mindspore.communication import init; init()"]


def cluster_variables(world_size: int, address: str, port: int, seconds: int) -> dict[str, str]:
    """Variables for the scheduler and all workers.

    Args:
        world_size: Ranks over all nodes.
        address: The IP address of node 0.
        port: Where the scheduler listens there.
        seconds: How long it waits for the workers.
    """
    return {
        "MS_WORKER_NUM": str(world_size),
        "MS_SCHED_HOST": address,
        "MS_SCHED_PORT": str(port),
        "MS_TOPO_TIMEOUT": str(seconds),
        "RANK_SIZE": str(world_size),
    }


def scheduler_address() -> tuple[str, int] | None:
    """Where the scheduler of this process's cluster listens; None if a rank table takes its place."""
    address, port = os.environ.get("MS_SCHED_HOST"), os.environ.get("MS_SCHED_PORT", "")
    return (address, int(port)) if address and port.isdecimal() else None


def worker_variables(rank_info: RankInfo) -> dict[str, str]:
    """Further variables for a rank."""
    own = {
        "MS_ROLE": "MS_WORKER",
        "MS_NODE_ID": str(rank_info.rank),
        "RANK_ID": str(rank_info.rank),
        "DEVICE_ID": str(_device(rank_info)),
        LOCAL_RANK: str(rank_info.local_rank),
    }
    if rank_info.local_world_size is not None:
        own[LOCAL_WORLD_SIZE] = str(rank_info.local_world_size)
    return own


def _device(rank_info):
    """The number of a rank's card among those it sees; Ray and some schedulers show each rank its own card alone."""
    visible = visible_devices()
    sees_its_own = visible is not None and len(visible) == 1
    return 0 if sees_its_own else rank_info.local_rank
