"""Who a process is among the ranks, and which node of a job a launcher runs on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RankInfo:
    """One process of a job.

    Attributes:
        rank: Its number over all nodes, from 0.
        world_size: How many ranks the job has.
        local_rank: Its number on this node, from 0; on Ascend the device it uses.
        local_world_size: How many ranks run on this node. None where plain msrun does not say (several nodes).
        launcher: Who started it: ``"none"``, ``"msrun"`` (also ``mindnlp-dp run`` with HCCL or MCCL), ``"mpirun"``,
            ``"ranktable"``, ``"srun"``, ``"torchrun"`` or ``"PyTorchJob"``.
        is_scheduler: Whether this is msrun's scheduler, which runs the user's script too but is no rank.
        scheduler: Address and port of the scheduler of MindSpore's cluster, where rank 0 has to start it; None where
            the launcher does.
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
        num_nodes: How many nodes the job has.
        node_rank: The number of this one, from 0.
        master_addr: Name or address of node 0; None if it is the only one.
        master_port: A port that is free there; None if the system names none.
        system: Who said so.
    """

    num_nodes: int = 1
    node_rank: int = 0
    master_addr: str | None = None
    master_port: int | None = None
    system: str = "none"
