"""Which rank is this process? One class per launcher reads the variables that the launcher sets.

The most explicit counts: variables that a launcher sets for each process come before those that a batch system or an
outer mpirun left in the shell, and both before what machines export for every shell (a rank table).
"""

import os
from collections.abc import Mapping

from mindnlp_dp_plugin.job.environments.base import Environment
from mindnlp_dp_plugin.job.environments.mpi import Hydra, OpenMpi, Pmix
from mindnlp_dp_plugin.job.environments.msrun import Msrun
from mindnlp_dp_plugin.job.environments.platforms import ASCEND_JOB, OTHERS
from mindnlp_dp_plugin.job.environments.rank_table import RankTable
from mindnlp_dp_plugin.job.environments.slurm import Slurm
from mindnlp_dp_plugin.job.environments.torchrun import PyTorchJob, Torchrun
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.several_nodes import Nodes
from mindnlp_dp_plugin.job.variables import JOB

# The most explicit first: who starts each rank, who starts a process on each node, what every shell may have.
ENVIRONMENTS: tuple[Environment, ...] = (
    *(ASCEND_JOB, Msrun(), OpenMpi(), Hydra(), Torchrun(), Slurm(), Pmix()),
    *(PyTorchJob(), *OTHERS, RankTable()),
)
VARIABLES = tuple(name for environment in ENVIRONMENTS for name in environment.variables)

__all__ = ["ENVIRONMENTS", "VARIABLES", "detect", "detect_nodes"]


def detect(environ: Mapping[str, str] | None = None) -> RankInfo:
    """Find out which rank this process is; a single process without a launcher.

    Args:
        environ: The variables to read, ``os.environ`` if None.

    Raises:
        DataParallelError: A variable is missing or holds no usable value, or this is one of several processes that
            cannot form a group; the message names the variable and a hint.
    """
    environ = os.environ if environ is None else environ
    # A rank of mindnlp-dp run has the variables of one of two, whatever the system around it says.
    for environment in (Msrun(), OpenMpi()) if JOB in environ else ENVIRONMENTS:
        if environment.is_present(environ):
            return environment.rank_info(environ)
    return RankInfo()


def detect_nodes(environ: Mapping[str, str] | None = None) -> Nodes | None:
    """The nodes on each of which a system has started this command; None if it runs on one.

    Args:
        environ: The variables to read, ``os.environ`` if None.

    Raises:
        DataParallelError: A variable is missing or holds no usable value.
    """
    environ = os.environ if environ is None else environ
    return next((nodes for environment in ENVIRONMENTS if (nodes := environment.nodes(environ))), None)
