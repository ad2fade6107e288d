"""torchrun, ``accelerate launch``, and the systems that set torch's variables for a pod.

https://pytorch.org/docs/stable/elastic/run.html, https://www.kubeflow.org/docs/components/trainer (PyTorchJob),
https://help.aliyun.com/zh/pai (DLC, built-in environment variables).
"""

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments.base import Environment, number
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.several_nodes import Nodes
from mindnlp_dp_plugin.language import Message, tr

HINT = Message("torchrun, or the system that runs the job, sets it; unset RANK and WORLD_SIZE to train alone")


class Torchrun(Environment):
    """A rank that torchrun or ``accelerate launch`` has started."""

    variables = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")

    def is_present(self, environ):
        return all(name in environ for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")) and _world_size(environ) > 1

    def rank_info(self, environ):
        world_size, local = _world_size(environ), None
        if "LOCAL_WORLD_SIZE" in environ:
            local = number(environ, "LOCAL_WORLD_SIZE", HINT, 1, world_size)
        return RankInfo(
            rank=number(environ, "RANK", HINT, 0, world_size - 1),
            world_size=world_size,
            local_rank=number(environ, "LOCAL_RANK", HINT, 0, (local or world_size) - 1),
            local_world_size=local,
            launcher="torchrun",
            # torchrun's own store may listen at MASTER_PORT itself.
            scheduler=(_master(environ), number(environ, "MASTER_PORT", HINT, 1, 65534) + 1),
        )


class PyTorchJob(Environment):
    """A pod of Kubeflow's PyTorchJob, of Alibaba PAI or of an AscendJob for PyTorch: ``RANK`` is the pod's.

    Its process is a rank if it runs the script, and a node if it runs ``mindnlp-dp run``.
    """

    def is_present(self, environ):
        if "RANK" not in environ or "WORLD_SIZE" not in environ or "LOCAL_RANK" in environ:
            return False
        # Kubeflow counts ranks in WORLD_SIZE, pods in PET_NNODES. If they differ, RANK is of no use.
        return _world_size(environ) > 1 and environ.get("PET_NNODES", environ["WORLD_SIZE"]) == environ["WORLD_SIZE"]

    def rank_info(self, environ):
        world_size = _world_size(environ)
        rank = number(environ, "RANK", HINT, 0, world_size - 1)
        scheduler = (_master(environ), number(environ, "MASTER_PORT", HINT, 1, 65534))
        return RankInfo(rank, world_size, 0, 1, "PyTorchJob", scheduler=scheduler)

    def nodes(self, environ):
        if not self.is_present(environ):
            return None
        asked_by = tr("{system} ({number} nodes)", system="PyTorchJob", number=environ["WORLD_SIZE"])
        return Nodes(asked_by, _world_size(environ), "msrun", "$RANK", "$MASTER_ADDR", "$MASTER_PORT")


def _world_size(environ):
    return number(environ, "WORLD_SIZE", HINT, 1)


def _master(environ):
    if not environ.get("MASTER_ADDR"):
        raise DataParallelError(
            "WORLD_SIZE={world_size} asks for several ranks, but MASTER_ADDR is not set: {hint}.",
            world_size=environ["WORLD_SIZE"],
            hint=HINT,
        )
    return environ["MASTER_ADDR"]
