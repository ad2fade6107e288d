"""Which rank a process is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RankInfo:
    """One process of a job.

    Attributes:
        rank: Its rank over all nodes, from 0.
        world_size: Number of ranks in the job.
        local_rank: Its rank on this node, from 0; on Ascend the device it uses.
        local_world_size: Number of ranks on this node; None if plain msrun does not say (several nodes).
        launcher: What started it: ``"none"``, ``"msrun"`` (also ``mindnlp-dp run`` with HCCL or MCCL), ``"mpirun"``,
            ``"ranktable"``, ``"srun"``, ``"torchrun"`` or ``"PyTorchJob"``.
        is_scheduler: Whether this is msrun's scheduler, which runs the user's script too but is no rank.
        scheduler: Address and port of the scheduler of MindSpore's cluster if rank 0 must start it; None if the
            launcher does.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int | None = 1
    launcher: str = "none"
    is_scheduler: bool = False
    scheduler: tuple[str, int] | None = None

    def for_scripts(self) -> dict[str, str]:
        """The variables of torchrun, which scripts ask; but for ``MASTER_ADDR`` and ``MASTER_PORT``."""
        names = ("rank", "world_size", "local_rank", "local_world_size")
        return {name.upper(): str(getattr(self, name)) for name in names}
