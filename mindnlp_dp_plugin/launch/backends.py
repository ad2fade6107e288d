"""Choose the engine, and check that it is installed."""

from types import ModuleType

from mindnlp_dp_plugin.collectives.engines import ENGINES, Engine, engines_for
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.hardware import has_ascend
from mindnlp_dp_plugin.launch import mindspore_cluster, mpi


def starter(engine: Engine) -> ModuleType:
    """What starts the ranks of an engine: ``processes(job)``, and ``missing()`` for what is not installed."""
    return mindspore_cluster if engine.forms_cluster else mpi


def choose(backend: str, needs_cluster: bool = False) -> str:
    """Resolve ``auto``: HCCL on Ascend; on CPU MPI if installed, otherwise MCCL.

    Args:
        backend: ``auto`` or the name of an engine.
        needs_cluster: Whether the script uses MindSpore's own cluster.

    Raises:
        DataParallelError: If the engine is not installed.
    """
    if backend == "auto":
        return next(name for name in usable_here() if ENGINES[name].forms_cluster or not needs_cluster)
    if missing := starter(ENGINES[backend]).missing():
        raise DataParallelError(
            "--backend {backend} needs {missing}, not found: pip install 'mindnlp-dp-plugin[mpi]', or --backend mccl.",
            backend=backend,
            missing=missing,
        )
    return backend


def require_device(engine: Engine) -> None:
    """Check that this node has what the ranks of an engine compute on.

    Raises:
        DataParallelError: It needs an Ascend card, and none is visible.
    """
    if engine.device == "Ascend" and not has_ascend():
        raise DataParallelError(
            "--backend {backend} needs an Ascend card, and this machine shows none (/dev/davinci*, npu-smi): give the "
            "container its devices, or use --backend auto.",
            backend=engine.name,
        )


def usable_here() -> list[str]:
    """The engines that work on this node; ``auto`` takes the first."""
    return [e.name for e in engines_for("Ascend" if has_ascend() else "CPU") if not starter(e).missing()]
