"""HCCL and MCCL: start the dynamic cluster that msrun would start, with the same environment variables.

msrun notices a killed rank only after 27 s and does not name it, so the processes are started and watched here.
"""

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.cluster import OF_THE_SCHEDULER, SCHEDULER, cluster_variables, worker_variables
from mindnlp_dp_plugin.job.error_record import rank_log
from mindnlp_dp_plugin.job.hardware import VISIBLE_DEVICES, visible_devices
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.launch.job import Job, Process, worker_argv
from mindnlp_dp_plugin.launch.ports import LOOPBACK

TOPOLOGY_TIMEOUT_S = 600  # msrun's own


def missing() -> None:
    """MindSpore itself has all that is needed."""


def processes(job: Job) -> list[Process]:
    """The workers, and the scheduler that lets them find each other.

    Raises:
        DataParallelError: If fewer cards are visible than there are to be ranks.
    """
    visible = visible_devices()
    if job.backend == "hccl" and visible is not None and job.nproc > len(visible):
        raise DataParallelError(
            "--nproc {ranks} needs as many Ascend cards, but {variable}={cards} shows {count}: list more there, unset "
            "it, or give --nproc {count}.",
            ranks=job.nproc,
            variable=VISIBLE_DEVICES,
            cards=",".join(visible),
            count=len(visible),
        )
    cluster = cluster_variables(job.nproc, LOOPBACK, job.master_port, TOPOLOGY_TIMEOUT_S)
    environ, log = {**cluster, **OF_THE_SCHEDULER}, job.log_dir / "scheduler.log"
    scheduler = Process("scheduler", None, SCHEDULER, environ, log, outlives_preemption=True)
    return [scheduler, *(_worker(job, cluster, rank) for rank in job.ranks)]


def _worker(job, cluster, rank) -> Process:
    own = worker_variables(RankInfo(rank, job.nproc, rank, job.nproc))
    return Process(f"rank {rank}", rank, worker_argv(job.command), {**cluster, **own}, rank_log(job.log_dir, rank))
