"""Choose the engine, and check that it is installed."""

import importlib.util
import os
import shutil
import sys

from mindnlp_dp_plugin.collectives.engines import ENGINES, Engine, engines_for
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.hardware import has_ascend


def choose(backend: str, num_nodes: int) -> str:
    """Resolve ``auto``: HCCL on Ascend; on CPU MPI if installed and on one node, otherwise MCCL.

    Args:
        backend: ``auto`` or the name of an engine.
        num_nodes: Number of nodes.

    Raises:
        DataParallelError: If MPI is chosen and missing, or chosen for several nodes.
    """
    if backend == "auto":
        return _usable(num_nodes)[0].name
    if ENGINES[backend].needs_mpirun:
        if missing := _missing_for_mpi():
            raise DataParallelError(
                "--backend {backend} needs {missing}, not found: pip install 'mindnlp-dp-plugin[mpi]', or --backend "
                "mccl.",
                backend=backend,
                missing=missing,
            )
        if num_nodes > 1:
            raise DataParallelError(
                "--nnodes {num_nodes} does not go with --backend {backend}: on several nodes use mpirun with its own "
                "host list and `import mindnlp_dp_plugin` first in the script, or --backend mccl.",
                num_nodes=num_nodes,
                backend=backend,
            )
    return backend


def usable_here() -> list[str]:
    """The engines that work on this node; ``auto`` takes the first."""
    return [engine.name for engine in _usable(num_nodes=1)]


def find_mpirun() -> str | None:
    """The ``mpirun`` of this Python's environment, otherwise the one on the PATH."""
    return shutil.which("mpirun", path=os.path.dirname(sys.executable)) or shutil.which("mpirun")


def _usable(num_nodes) -> list[Engine]:
    """Usable engines, MPI first, which is faster."""
    engines = sorted(engines_for("Ascend" if has_ascend() else "CPU"), key=lambda engine: not engine.needs_mpirun)
    has_mpi = num_nodes == 1 and not _missing_for_mpi()
    return [engine for engine in engines if has_mpi or not engine.needs_mpirun]


def _missing_for_mpi() -> str | None:
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py"
    return None if find_mpirun() else "mpirun"
