"""Platforms that start one process on each node: AscendJob, ModelArts, Volcano, SkyPilot, Kubeflow's Trainer.

https://www.hiascend.com (MindCluster, Ascend Operator), https://support.huaweicloud.com/modelarts,
https://volcano.sh (plugins env and svc), https://docs.skypilot.co (distributed jobs),
https://www.kubeflow.org/docs/components/trainer.
"""

import math
import re
import socket

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments.base import Environ, Environment, count
from mindnlp_dp_plugin.job.hardware import num_devices
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.several_nodes import PORT, Nodes
from mindnlp_dp_plugin.language import tr


class Platform(Environment):
    """A platform whose variables describe a node.

    Attributes:
        name: Its name.
        marks: The variables by which it is known.
        number: The variable that counts the nodes.
        node_rank: The rank of a node, for a shell.
        master_addr: The address of node 0, for a shell.
        master_port: A port there, for a shell.
    """

    name: str
    marks: tuple[str, ...]
    number: str
    node_rank: str
    master_addr: str
    master_port = PORT

    def is_present(self, environ):
        return all(name in environ for name in self.marks)

    def rank_info(self, environ):
        nodes = self.nodes(environ)
        if nodes is None and self.is_one_process(environ):
            return RankInfo()
        line = nodes.line(num_devices(), "<script>", {}) if nodes else "mindnlp-dp run --nproc auto <script>"
        raise DataParallelError(
            "{name} asks for several processes, but has started no ranks, so each node would train alone. Start them, "
            "on each node, with `import mindnlp_dp_plugin` first in the script: {line}",
            name=self.name,
            line=line,
        )

    def nodes(self, environ):
        if not self.is_present(environ) or (number := self.count_nodes(environ)) == 1:
            return None
        asked_by = tr("{system} ({number} nodes)", system=self.name, number=number)
        return Nodes(asked_by, number, "msrun", self.node_rank, self.master_addr, self.master_port)

    @property
    def hint(self) -> str:
        """Who sets the variables."""
        return tr("{system} sets it", system=self.name)

    def count_nodes(self, environ: Environ) -> int:
        """How many nodes the job has."""
        return count(environ, self.number, self.hint)

    def is_one_process(self, environ: Environ) -> bool:
        """Whether a job on one node is a single process, so that it may train alone."""
        return True


class AscendJob(Platform):
    """A pod of the Ascend Operator. It has msrun's variables, but for a pod: ``MS_NODE_ID`` is missing."""

    name, marks, number = "AscendJob", ("MS_LOCAL_WORKER", "MS_NODE_RANK"), "MS_WORKER_NUM"
    node_rank, master_addr, master_port = "$MS_NODE_RANK", "$MS_SCHED_HOST", "$MS_SCHED_PORT"

    def is_present(self, environ):
        # What msrun starts in the pod has more: its scheduler another role, its workers their ranks.
        is_of_msrun = "MS_NODE_ID" in environ or environ.get("MS_ROLE") == "MS_SCHED"
        return super().is_present(environ) and not is_of_msrun

    def count_nodes(self, environ):
        ranks, ranks_here = super().count_nodes(environ), count(environ, "MS_LOCAL_WORKER", self.hint)
        return math.ceil(ranks / ranks_here)

    def is_one_process(self, environ):
        return environ["MS_WORKER_NUM"] == "1"


class ModelArts(Platform):
    """A node of a ModelArts training job. On a single node ``VC_TASK_INDEX`` means nothing."""

    name, marks, number = "ModelArts", ("MA_NUM_HOSTS",), "MA_NUM_HOSTS"
    node_rank, master_addr = "$VC_TASK_INDEX", "${VC_WORKER_HOSTS%%,*}"


class Volcano(Platform):
    """A pod of a Volcano job that has the plugins ``env`` and ``svc``. Its task is the one that lists its name."""

    name = "Volcano"

    def is_present(self, environ):
        return ("VC_TASK_INDEX" in environ or "VK_TASK_INDEX" in environ) and bool(_tasks(environ))

    def nodes(self, environ):
        if not self.is_present(environ):
            return None
        tasks, me = _tasks(environ), environ.get("HOSTNAME") or socket.gethostname()
        task = next((task for task, hosts in tasks.items() if me in re.split(r"[,.]", hosts)), next(iter(tasks)))
        number = count(environ, f"VC_{task}_NUM", self.hint)
        if number == 1:
            return None
        index = "VC_TASK_INDEX" if "VC_TASK_INDEX" in environ else "VK_TASK_INDEX"
        asked_by = tr("{system} ({number} nodes)", system=self.name, number=number)
        return Nodes(asked_by, number, "msrun", f"${index}", f"${{VC_{task}_HOSTS%%,*}}")


class SkyPilot(Platform):
    """A node of a SkyPilot task."""

    name, marks, number = "SkyPilot", ("SKYPILOT_NODE_RANK",), "SKYPILOT_NUM_NODES"
    node_rank, master_addr = "$SKYPILOT_NODE_RANK", "${SKYPILOT_NODE_IPS%%[[:space:]]*}"


class KubeflowPet(Platform):
    """A pod of Kubeflow's Trainer, which sets torchrun's options."""

    name, marks, number = "Kubeflow", ("PET_NNODES", "PET_NODE_RANK"), "PET_NNODES"
    node_rank, master_addr, master_port = "$PET_NODE_RANK", "$PET_MASTER_ADDR", "$PET_MASTER_PORT"

    def is_one_process(self, environ):
        several = environ.get("PET_NPROC_PER_NODE", "1")
        return not (several.isdecimal() and int(several) > 1)


def _tasks(environ):
    """The hosts of each task of a Volcano job, by its name."""
    names = (re.fullmatch(r"VC_(.+)_HOSTS", name) for name in environ)
    return {match[1]: environ[match[0]] for match in names if match and f"VC_{match[1]}_NUM" in environ}
