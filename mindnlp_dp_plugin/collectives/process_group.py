"""The one group of ranks this process belongs to: joined when the plugin is armed, left when the script is done."""

from mindnlp_dp_plugin.collectives.base import Collective
from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.launch.identity import Identity

DEVICE_OF_BACKEND = {"hccl": "Ascend", "mccl": "CPU"}

_group: Collective | None = None


def join(identity: Identity, backend: str) -> Collective:
    """Join the ranks that were started together with this process. To be called on all ranks, once.

    Args:
        identity: Who this process is, as its launcher said.
        backend: ``"auto"``, ``"hccl"``, ``"mccl"`` or ``"mpi"``.

    Returns:
        The group. Later calls return the same one.

    Raises:
        DataParallelError: If ``backend`` does not fit the launcher, the device, or what is installed.
    """
    global _group
    if _group is None:
        group = _engine(identity.launcher, backend)
        if group.world_size != identity.world_size:
            raise DataParallelError(
                f"{identity.launcher} announced {identity.world_size} processes, but {group.world_size} joined: is "
                "the script started with the mpirun or msrun of another environment?"
            )
        group.local_rank, group.local_world_size = identity.local_rank, identity.local_world_size
        _group = group
    return _group


def current() -> Collective:
    """The group this process belongs to; a group of one before ``join``."""
    return _group or SingleProcess()


def shutdown() -> None:
    """Wait until every rank is done with its last collective. To be called on all ranks, last of all.

    A rank that leaves earlier makes a collective fail in which its peers still are.
    """
    current().barrier()


def _engine(launcher, backend):
    if launcher == "none":
        return SingleProcess()
    import mindspore

    device = mindspore.get_context("device_target")
    if backend == "auto":
        backend = "mpi" if launcher == "mpirun" and device == "CPU" else "hccl" if device == "Ascend" else "mccl"
    if backend == "mpi":
        return _mpi_engine(launcher)
    if device != DEVICE_OF_BACKEND[backend]:
        raise DataParallelError(
            f"backend={backend!r} needs the device {DEVICE_OF_BACKEND[backend]}, but MindSpore runs on {device}: "
            "choose backend='auto', or set DEVICE_TARGET."
        )
    if backend == "mccl" and launcher == "mpirun":
        raise DataParallelError("backend='mccl' cannot be started by mpirun: use msrun or mindnlp-dp run, or 'mpi'.")
    if hasattr(getattr(mindspore.mint, "distributed", None), "all_gather_object"):
        from mindnlp_dp_plugin.collectives.cluster import MindSporeCollective

        return MindSporeCollective()
    from mindnlp_dp_plugin.collectives.primitives import PrimitiveCollective

    return PrimitiveCollective()


def _mpi_engine(launcher):
    if launcher != "mpirun":
        raise DataParallelError(f"backend='mpi' needs mpirun, but this process was started by {launcher}.")
    try:
        from mindnlp_dp_plugin.collectives.mpi import MpiCollective
    except ImportError as error:
        raise DataParallelError(
            f"backend='mpi' needs mpi4py and an MPI library ({error}): pip install 'mindnlp-dp-plugin[mpi]'."
        ) from error
    return MpiCollective()
