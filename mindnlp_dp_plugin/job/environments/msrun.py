"""MindSpore's msrun: ``MS_ROLE`` and what belongs to it. https://www.mindspore.cn (dynamic cluster startup)."""

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments.base import Environment, number
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.variables import LOCAL_RANK, LOCAL_WORLD_SIZE
from mindnlp_dp_plugin.language import Message

HINT = Message("start with msrun or mindnlp-dp run, which set it, or unset MS_ROLE to train alone")
NODE_RANK_HINT = Message("pass --node_rank=<number of this node> to msrun when it starts on several nodes")


class Msrun(Environment):
    """One process of the cluster that msrun, or ``mindnlp-dp run`` with HCCL or MCCL, sets up."""

    variables = (
        *("MS_ROLE", "MS_WORKER_NUM", "MS_SERVER_NUM", "MS_SCHED_HOST", "MS_SCHED_PORT", "MS_NODE_ID"),
        *("MS_LOCAL_WORKER", "MS_NODE_RANK", LOCAL_RANK, LOCAL_WORLD_SIZE),
    )

    def is_present(self, environ):
        return "MS_ROLE" in environ

    def rank_info(self, environ):
        role = environ["MS_ROLE"]
        if role not in ("MS_WORKER", "MS_SCHED"):
            raise DataParallelError(
                "MS_ROLE={role!r} is not known: it must be MS_WORKER or MS_SCHED; {hint}.", role=role, hint=HINT
            )
        world_size = number(environ, "MS_WORKER_NUM", HINT, 1)
        if role == "MS_SCHED":
            return RankInfo(world_size=world_size, local_world_size=None, launcher="msrun", is_scheduler=True)
        # Not RANK_ID: without --node_rank, msrun's workers inherit the scheduler's RANK_ID=0.
        rank = number(environ, "MS_NODE_ID", NODE_RANK_HINT, 0, world_size - 1)
        return RankInfo(
            rank=rank,
            world_size=world_size,
            local_rank=_local_rank(environ, rank),
            local_world_size=_local_world_size(environ, world_size),
            launcher="msrun",
        )


def _local_rank(environ, rank):
    name = next((name for name in (LOCAL_RANK, "DEVICE_ID") if name in environ), None)
    return rank if name is None else number(environ, name, HINT)


def _local_world_size(environ, world_size):
    if LOCAL_WORLD_SIZE in environ:
        hint = Message("start with mindnlp-dp run, which sets it")
        return number(environ, LOCAL_WORLD_SIZE, hint, 1, world_size)
    on_one_node = environ.get("MS_SCHED_HOST", "").startswith("127.")
    return world_size if on_one_node else None
