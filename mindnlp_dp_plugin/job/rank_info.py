"""Which rank a process is, and on which node of a job a launcher runs."""

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


@dataclass(frozen=True)
class NodeInfo:
    """One node of a job, on which ``mindnlp-dp run`` is to start ranks.

    Attributes:
        num_nodes: Number of nodes in the job.
        node_rank: The rank of this node, from 0.
        master_addr: Name or address of node 0; None for a single node.
        master_port: A free port there; None if the system names none.
        system: The system whose variables say so.
    """

    num_nodes: int = 1
    node_rank: int = 0
    master_addr: str | None = None
    master_port: int | None = None
    system: str = "none"
