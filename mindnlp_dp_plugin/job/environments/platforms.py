"""Platforms that start one process on each node: AscendJob, ModelArts, Volcano, SkyPilot, Kubeflow's Trainer.

https://www.hiascend.com (MindCluster, Ascend Operator), https://support.huaweicloud.com/modelarts,
https://volcano.sh (plugins env and svc), https://docs.skypilot.co (distributed jobs),
https://www.kubeflow.org/docs/components/trainer.
"""

import math
import re
import socket
from dataclasses import dataclass

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments.base import Environ, Environment, number
from mindnlp_dp_plugin.job.hardware import num_devices
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.several_nodes import PORT, Nodes
from mindnlp_dp_plugin.language import tr


@dataclass(frozen=True)
class Platform(Environment):
    """A platform whose variables describe a node.

    Attributes:
        name: Its name.
        num_nodes: The variable that counts the nodes.
        node_rank: The rank of a node, for a shell.
        master_addr: The address of node 0, for a shell.
        master_port: A port there, for a shell.
        ranks_here: The variable that counts the ranks that a node is for, if there is one.
    """

    name: str
    num_nodes: str
    node_rank: str
    master_addr: str
    master_port: str = PORT
    ranks_here: str = ""

    def is_present(self, environ):
        return ":" not in environ.get(self.num_nodes, ":")  # a range is for torchrun, which starts ranks itself

    def rank_info(self, environ):
        nodes, ranks_here = self.nodes(environ), environ.get(self.ranks_here, "")
        if nodes is None and not (ranks_here.isdecimal() and int(ranks_here) > 1):
            return RankInfo()
        line = nodes.line(num_devices(), "<script>", {}) if nodes else "mindnlp-dp run --nproc auto <script>"
        raise DataParallelError(
            "{name} asks for several processes, but has started no ranks, so each node would train alone. Put "
            "`import mindnlp_dp_plugin` first in the script, and start the ranks on each node: {line}",
            name=self.name,
            line=line,
        )

    def nodes(self, environ):
        if not self.is_present(environ) or (found := self.count_nodes(environ)) == 1:
            return None
        asked_by = tr("{system} ({number} nodes)", system=self.name, number=found)
        return Nodes(asked_by, found, "msrun", self.node_rank, self.master_addr, self.master_port)

    def count_nodes(self, environ: Environ) -> int:
        """How many nodes the job has."""
        return number(environ, self.num_nodes, tr("{system} sets it", system=self.name), 1)


class AscendJob(Platform):
    """A pod of the Ascend Operator. It has msrun's variables, but for a pod: ``MS_NODE_ID`` is missing."""

    def is_present(self, environ):
        # What msrun starts in the pod has more: its scheduler another role, its workers their ranks.
        is_of_msrun = "MS_NODE_ID" in environ or environ.get("MS_ROLE") == "MS_SCHED"
        return "MS_LOCAL_WORKER" in environ and "MS_NODE_RANK" in environ and not is_of_msrun

    def count_nodes(self, environ):
        ranks_here = number(environ, self.ranks_here, tr("{system} sets it", system=self.name), 1)
        return math.ceil(super().count_nodes(environ) / ranks_here)


class Volcano(Platform):
    """A pod of a Volcano job that has the plugins ``env`` and ``svc``; ``num_nodes`` is for each of the job's tasks."""

    def is_present(self, environ):
        return "VC_TASK_INDEX" in environ and bool(self._tasks(environ))

    def nodes(self, environ):
        if not self.is_present(environ):
            return None
        tasks, me = self._tasks(environ), environ.get("HOSTNAME") or socket.gethostname()
        task = next((task for task in tasks if me in re.split(r"[,.]", environ[f"VC_{task}_HOSTS"])), tasks[0])
        address = self.master_addr.format(task)
        return Platform(self.name, self.num_nodes.format(task), self.node_rank, address).nodes(environ)

    def _tasks(self, environ):
        names = (re.fullmatch(r"VC_(.+)_HOSTS", name) for name in environ)
        return [match[1] for match in names if match and self.num_nodes.format(match[1]) in environ]


ASCEND_JOB = AscendJob(
    "AscendJob", "MS_WORKER_NUM", "$MS_NODE_RANK", "$MS_SCHED_HOST", "$MS_SCHED_PORT", "MS_LOCAL_WORKER"
)
OTHERS = (
    Platform(
        *("Kubeflow", "PET_NNODES", "$PET_NODE_RANK", "$PET_MASTER_ADDR", "$PET_MASTER_PORT", "PET_NPROC_PER_NODE")
    ),
    Platform("ModelArts", "MA_NUM_HOSTS", "$VC_TASK_INDEX", "${VC_WORKER_HOSTS%%,*}"),  # no index on a single node
    Volcano("Volcano", "VC_{}_NUM", "$VC_TASK_INDEX", "${{VC_{}_HOSTS%%,*}}"),
    Platform("SkyPilot", "SKYPILOT_NUM_NODES", "$SKYPILOT_NODE_RANK", "${SKYPILOT_NODE_IPS%%[[:space:]]*}"),
)
