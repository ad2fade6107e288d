"""HCCL and MCCL: the dynamic cluster that msrun sets up, made of the same environment variables.

msrun itself notices a killed rank after 27 s and does not name it, so the processes are started, and watched, here.
"""

import sys

from mindnlp_dp_plugin.job.error_record import rank_log
from mindnlp_dp_plugin.job.variables import LOCAL_WORLD_SIZE
from mindnlp_dp_plugin.launch.job import Job, Process, worker_argv

TOPOLOGY_TIMEOUT_S = 600  # msrun's own
SCHEDULE = "from mindspore.communication import init; init()"


def processes(job: Job) -> list[Process]:
    """The workers of this host, and on host 0 the scheduler that lets them find each other."""
    cluster = {
        "MS_WORKER_NUM": str(job.world_size),
        "MS_SCHED_HOST": job.master_addr,
        "MS_SCHED_PORT": str(job.master_port),
        "MS_TOPO_TIMEOUT": str(TOPOLOGY_TIMEOUT_S),
        "RANK_SIZE": str(job.world_size),
        LOCAL_WORLD_SIZE: str(job.nproc),
    }
    workers = [_worker(job, cluster, local_rank) for local_rank in range(job.nproc)]
    return [_scheduler(job, cluster), *workers] if job.node_rank == 0 else workers


def _scheduler(job, cluster) -> Process:
    log = job.log_dir / "scheduler.log"
    return Process("scheduler", None, [sys.executable, "-c", SCHEDULE], {**cluster, "MS_ROLE": "MS_SCHED"}, log)


def _worker(job, cluster, local_rank) -> Process:
    rank = job.local_ranks[local_rank]
    own = {"MS_ROLE": "MS_WORKER", "MS_NODE_ID": str(rank), "RANK_ID": str(rank), "DEVICE_ID": str(local_rank)}
    return Process(f"rank {rank}", rank, worker_argv(job.command), {**cluster, **own}, rank_log(job.log_dir, rank))
