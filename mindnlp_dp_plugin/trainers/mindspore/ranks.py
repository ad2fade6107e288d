"""Answer MindSpore's questions about ranks under MPI, where no cluster of MindSpore's knows them."""

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.patching import Patches

INNER_MINT = "mindspore.mint.distributed.distributed"  # the plugin's own engine calls what is in there


def answer_for_ranks(group: Collective, patches: Patches) -> None:
    """Let ``init``, ``get_rank``, ``get_group_size`` and their kind work without a MindSpore cluster.

    Args:
        group: The ranks that mpirun started.
        patches: Restores ``mindspore.communication``.
    """
    from mindspore.communication import management

    def create_group(group, rank_ids, options=None):
        raise DataParallelError(
            "create_group({name!r}): over MPI only the group of all ranks exists: use it, or --backend mccl.",
            name=group,
        )

    answers = {
        "init": lambda backend_name=None: None,
        "release": lambda: None,
        "get_rank": lambda group=None: collective.rank,
        "get_group_size": lambda group=None: collective.world_size,
        "get_local_rank": lambda group=None: collective.local_rank,
        "get_local_rank_size": lambda group=None: collective.local_world_size,
        "get_world_rank_from_group_rank": lambda group, group_rank_id: group_rank_id,
        "get_group_rank_from_world_rank": lambda world_rank_id, group: world_rank_id,
        "get_process_group_ranks": lambda group=None: list(range(collective.world_size)),
        "create_group": create_group,
        "destroy_group": lambda group: None,
    }
    collective = group
    found = {name: getattr(management, name, None) for name in answers}
    patches.replace_everywhere({stock: answers[name] for name, stock in found.items() if stock}, except_in=INNER_MINT)
