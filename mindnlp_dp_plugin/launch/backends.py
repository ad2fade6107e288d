"""Which engine carries the collectives, and whether it is there."""

import importlib.util
import os
import shutil
import sys

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.hardware import has_ascend


def choose(backend: str, num_nodes: int) -> str:
    """Turns ``auto`` into an engine: HCCL on Ascend; on CPU MPI if installed and on one host, else MCCL.

    Args:
        backend: ``auto``, ``hccl``, ``mccl`` or ``mpi``.
        num_nodes: Number of hosts.

    Raises:
        DataParallelError: MPI is asked for and missing, or asked for on several hosts.
    """
    if backend == "auto":
        if has_ascend():
            return "hccl"
        return "mpi" if num_nodes == 1 and not _missing_for_mpi() else "mccl"
    if backend == "mpi":
        if missing := _missing_for_mpi():
            raise DataParallelError(
                f"--backend mpi needs {missing}, not found: pip install 'mindnlp-dp-plugin[mpi]', or --backend mccl."
            )
        if num_nodes > 1:
            raise DataParallelError(
                f"--nnodes {num_nodes} does not go with --backend mpi: on several hosts use mpirun with its own host "
                "list and `import mindnlp_dp_plugin` first in the script, or --backend mccl."
            )
    return backend


def find_mpirun() -> str | None:
    """The ``mpirun`` installed beside this Python, else the one on the PATH."""
    return shutil.which("mpirun", path=os.path.dirname(sys.executable)) or shutil.which("mpirun")


def _missing_for_mpi() -> str | None:
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py"
    return None if find_mpirun() else "mpirun"
