"""Answer ``mindspore.communication`` under MPI, so that scripts that use it keep working."""

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.patching import Replacements


def answer_from_group(group: Collective, replacements: Replacements) -> None:
    """Let ``init``, ``get_rank`` and ``get_group_size`` work without a MindSpore cluster.

    Args:
        group: The ranks that mpirun started.
        replacements: Restores ``mindspore.communication``.
    """
    import mindspore.communication

    answers = {
        "init": lambda backend_name=None: None,
        "release": lambda: None,
        "get_rank": lambda group_name=None: group.rank,
        "get_group_size": lambda group_name=None: group.world_size,
        "get_local_rank": lambda group_name=None: group.local_rank,
        "get_local_rank_size": lambda group_name=None: group.local_world_size,
    }
    for module in (mindspore.communication, mindspore.communication.management):
        for name, answer in answers.items():
            replacements.replace(module, name, answer)
