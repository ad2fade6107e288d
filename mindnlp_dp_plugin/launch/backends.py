"""Choose the engine, and check that it is installed."""

import importlib
from types import ModuleType

from mindnlp_dp_plugin.collectives.engines import ENGINES, Engine, engines_for
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.hardware import has_ascend


def starter(engine: Engine) -> ModuleType:
    """What starts the ranks of an engine: ``processes(job)``, and ``missing()`` for what is not installed."""
    return importlib.import_module(f"mindnlp_dp_plugin.launch.{engine.starter}")


def choose(backend: str, num_nodes: int, needs_cluster: bool = False) -> str:
    """Resolve ``auto``: HCCL on Ascend; on CPU MPI if installed and on one node, otherwise MCCL.

    Args:
        backend: ``auto`` or the name of an engine.
        num_nodes: Number of nodes.
        needs_cluster: Whether the script uses MindSpore's own cluster.

    Raises:
        DataParallelError: If the engine is not installed, or does not go with several nodes.
    """
    if backend == "auto":
        without_cluster = num_nodes == 1 and not needs_cluster
        return next(name for name in usable_here() if without_cluster or ENGINES[name].forms_cluster)
    if missing := starter(ENGINES[backend]).missing():
        raise DataParallelError(
            "--backend {backend} needs {missing}, not found: pip install 'mindnlp-dp-plugin[mpi]', or --backend mccl.",
            backend=backend,
            missing=missing,
        )
    if num_nodes > 1 and not ENGINES[backend].forms_cluster:
        raise DataParallelError(
            "--nnodes {num_nodes} does not go with --backend {backend}: on several nodes use mpirun with its own host "
            "list and `import mindnlp_dp_plugin` first in the script, or --backend mccl.",
            num_nodes=num_nodes,
            backend=backend,
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
