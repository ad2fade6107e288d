"""``mindnlp-dp run``: it speaks as msrun does for HCCL and MCCL, and lets mpirun speak for MPI."""

from mindnlp_dp_plugin.job.environments.base import Environment
from mindnlp_dp_plugin.job.environments.mpi import OpenMpi
from mindnlp_dp_plugin.job.environments.msrun import Msrun
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.variables import JOB


class MindnlpDp(Environment):
    """A rank of a job, whatever the system in which the job runs says besides."""

    def is_present(self, environ):
        return JOB in environ

    def rank_info(self, environ):
        for environment in (Msrun(), OpenMpi()):
            if environment.is_present(environ):
                return environment.rank_info(environ)
        return RankInfo()
