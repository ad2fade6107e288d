"""mpirun: the variables of Open MPI, and those of MPICH's Hydra (PMI)."""

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments.base import Environment, number
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.language import Message

HINT = Message("start with mpirun or mindnlp-dp run, which set it")


class Mpirun(Environment):
    """An mpirun; ``variables`` holds rank, size, local rank and local size, in this order."""

    def is_present(self, environ):
        return self.variables[1] in environ

    def rank_info(self, environ):
        rank, size, local_rank, local_size = self.variables
        world_size = number(environ, size, HINT, 1)
        local_world_size = number(environ, local_size, HINT, 1, world_size)
        return RankInfo(
            rank=number(environ, rank, HINT, 0, world_size - 1),
            world_size=world_size,
            local_rank=number(environ, local_rank, HINT, 0, local_world_size - 1),
            local_world_size=local_world_size,
            launcher="mpirun",
        )


class OpenMpi(Mpirun):
    """Open MPI 4 and 5, also under Kubeflow's MPIJob: https://docs.open-mpi.org (environment variables)."""

    variables = tuple(f"OMPI_COMM_WORLD_{what}" for what in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE"))


class Hydra(Mpirun):
    """MPICH and Intel MPI. If only the first two are set, it is Slurm's PMI, left to ``Slurm``."""

    variables = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")

    def is_present(self, environ):
        return "PMI_SIZE" in environ and ("MPI_LOCALNRANKS" in environ or "SLURM_STEP_ID" not in environ)


class Pmix(Environment):
    """A process manager that tells the number of ranks only over PMIx: https://pmix.github.io."""

    variables = ("PMIX_RANK", "PMIX_NAMESPACE")

    def is_present(self, environ):
        return "PMIX_RANK" in environ

    def rank_info(self, environ):
        raise DataParallelError(
            "PMIX_RANK={pmix_rank!r} says that this is one of several processes, but not of how many: start it with "
            "mpirun, srun or mindnlp-dp run, or unset PMIX_RANK to train alone.",
            pmix_rank=environ["PMIX_RANK"],
        )
