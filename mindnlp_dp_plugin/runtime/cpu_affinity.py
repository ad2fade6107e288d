"""Make ranks, and one process, fast on a CPU: a share of the cores for each rank, and operators launched synchronously.

Stock MindSpore runs PyNative operators on separate threads, which spin and compete for the cores: launching them
synchronously (``launch_blocking``) is several times faster. On Ascend the asynchronous pipeline is wanted, so nothing
is changed there. MindSpore sizes its pool of kernel threads by the affinity it finds, so a rank is pinned before
MindSpore is imported; ``threads_num`` is left to the user (MindSpore lets it be set only once).
"""

import os
import sys
from collections.abc import MutableMapping

from mindnlp_dp_plugin.collectives.engines import runs_on
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.job.hardware import allowed_cores, cpu_quota, has_ascend
from mindnlp_dp_plugin.job.rank_info import RankInfo


def is_wanted(config: DataParallelConfig) -> bool:
    """Whether this process computes on the CPU, and ``cpu_tuning`` is on."""
    return config.cpu_tuning and (runs_on(config.backend, "CPU") or not has_ascend())


def share(cores: list[int], local_rank: int, local_world_size: int) -> list[int]:
    """The cores of one rank: an equal slice of neighbours, or a single core, in turn, if ranks outnumber cores.

    Args:
        cores: The cores that all local ranks together may use.
        local_rank: This rank on the node.
        local_world_size: Number of ranks on the node.
    """
    if local_world_size > len(cores):
        return [cores[local_rank % len(cores)]]
    first, end = (len(cores) * rank // local_world_size for rank in (local_rank, local_rank + 1))
    return cores[first:end]


def pin(rank_info: RankInfo, cores: list[int], environ: MutableMapping[str, str]) -> None:
    """Pin this process to its share of the cores. Call it before MindSpore or NumPy is imported.

    Args:
        rank_info: Which rank this is.
        cores: The cores that all local ranks may use; ``taskset`` before ``mindnlp-dp run`` narrows them.
        environ: Gets ``OMP_NUM_THREADS`` unless the user set it.
    """
    mine = share(cores, rank_info.local_rank, rank_info.local_world_size)
    os.sched_setaffinity(0, mine)
    quota = cpu_quota()
    threads = len(mine) if quota is None else min(len(mine), max(1, int(quota / rank_info.local_world_size)))
    environ.setdefault("OMP_NUM_THREADS", str(threads))


def pin_as_launchers_do_not(rank_info: RankInfo) -> None:
    """Pin a rank of another launcher, unless that has done so, or the number of ranks on this node is unknown."""
    has_come_late = "mindspore" in sys.modules
    is_bound = len(os.sched_getaffinity(0)) < os.cpu_count()
    if not (has_come_late or is_bound or rank_info.local_world_size is None):
        pin(rank_info, allowed_cores(), os.environ)


def tune_mindspore(mindspore) -> None:
    """Let PyNative operators run in the calling thread, if MindSpore, given as the module, computes on the CPU."""
    if mindspore.get_context("device_target") == "CPU":
        mindspore.runtime.launch_blocking()
