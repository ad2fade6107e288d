"""``mindnlp-dp run``: it sets msrun's variables for HCCL and MCCL; for MPI, mpirun sets its own."""

from mindnlp_dp_plugin.job.environments.base import Environment
from mindnlp_dp_plugin.job.environments.mpi import OpenMpi
from mindnlp_dp_plugin.job.environments.msrun import Msrun
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.variables import JOB


class MindnlpDp(Environment):
    """A rank of ``mindnlp-dp run``, whatever the system around it says."""

    def is_present(self, environ):
        return JOB in environ

    def rank_info(self, environ):
        for environment in (Msrun(), OpenMpi()):
            if environment.is_present(environ):
                return environment.rank_info(environ)
        return RankInfo()
