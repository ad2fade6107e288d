"""The one group of ranks this process belongs to: joined when the plugin is armed, left when the script is done."""

import os
from pathlib import Path

from mindnlp_dp_plugin.collectives.backend_timeouts import be_patient
from mindnlp_dp_plugin.collectives.base import Collective
from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.collectives.watchdog import Watchdog, Watched
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_info import Identity
from mindnlp_dp_plugin.job.rank_status import BOARD, JOINING, Board, answer_for_stacks, state_path

DEVICE_OF_BACKEND = {"hccl": "Ascend", "mccl": "CPU"}

_group: Collective | None = None
_watchdog: Watchdog | None = None


def join(identity: Identity, config: DataParallelConfig) -> Collective:
    """Join the ranks that were started together with this process. To be called on all ranks, once.

    Args:
        identity: Who this process is, as its launcher said.
        config: Its ``backend`` and ``timeout``.

    Returns:
        The group. Later calls return the same one; only the timeout is taken anew.

    Raises:
        DataParallelError: If ``backend`` does not fit the launcher, the device, or what is installed.
    """
    global _group
    if _group is None:
        _group = SingleProcess() if identity.launcher == "none" else _join_others(identity, config)
    if _watchdog:
        _watchdog.timeout = config.timeout
    return _group


def current() -> Collective:
    """The group this process belongs to; a group of one before ``join``."""
    return _group or SingleProcess()


def shutdown() -> None:
    """Wait until every rank is done with its last collective. To be called on all ranks, last of all.

    A rank that leaves earlier makes a collective fail in which its peers still are.
    """
    if isinstance(_group, Watched):
        _group.end()


def _join_others(identity, config):
    global _watchdog
    folder = Path(os.environ[BOARD]) if BOARD in os.environ else None
    board = Board(folder and state_path(folder, identity.rank))
    if folder:
        answer_for_stacks(folder, identity.rank)
    _watchdog = Watchdog(identity, board, folder, config.timeout)
    _watchdog.start()
    engine_type = _engine_type(identity.launcher, config)
    board.enter(0, JOINING)
    engine = engine_type()
    board.leave()
    if engine.world_size != identity.world_size:
        raise DataParallelError(
            f"{identity.launcher} announced {identity.world_size} processes, but {engine.world_size} joined: is "
            "the script started with the mpirun or msrun of another environment?"
        )
    group = Watched(engine, board, _watchdog)
    group.local_rank, group.local_world_size = identity.local_rank, identity.local_world_size
    return group


def _engine_type(launcher, config):
    import mindspore

    backend, device = config.backend, mindspore.get_context("device_target")
    if backend == "auto":
        backend = "mpi" if launcher == "mpirun" and device == "CPU" else "hccl" if device == "Ascend" else "mccl"
    if backend == "mpi":
        return _mpi_engine_type(launcher)
    if device != DEVICE_OF_BACKEND[backend]:
        raise DataParallelError(
            f"backend={backend!r} needs the device {DEVICE_OF_BACKEND[backend]}, but MindSpore runs on {device}: "
            "choose backend='auto', or set DEVICE_TARGET."
        )
    if backend == "mccl" and launcher == "mpirun":
        raise DataParallelError("backend='mccl' cannot be started by mpirun: use msrun or mindnlp-dp run, or 'mpi'.")
    be_patient(device, config.timeout)
    from mindnlp_dp_plugin.collectives.cluster import MindSporeCollective

    return MindSporeCollective


def _mpi_engine_type(launcher):
    if launcher != "mpirun":
        raise DataParallelError(f"backend='mpi' needs mpirun, but this process was started by {launcher}.")
    try:
        from mindnlp_dp_plugin.collectives.mpi import MpiCollective
    except ImportError as error:
        raise DataParallelError(
            f"backend='mpi' needs mpi4py and an MPI library ({error}): pip install 'mindnlp-dp-plugin[mpi]'."
        ) from error
    return MpiCollective
