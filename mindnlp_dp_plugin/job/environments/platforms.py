"""Platforms that start one process on each node: AscendJob, ModelArts, Volcano, SkyPilot.

https://www.hiascend.com (MindCluster, Ascend Operator), https://support.huaweicloud.com/modelarts,
https://volcano.sh (plugins env and svc), https://docs.skypilot.co (distributed jobs).
"""

import re
import socket

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments.base import DEFAULT_PORT, NodeEnvironment, count, first_host, number_below, port
from mindnlp_dp_plugin.job.rank_info import NodeInfo
from mindnlp_dp_plugin.language import Message, tr


class AscendJob(NodeEnvironment):
    """A pod of the Ascend Operator. It has msrun's variables, but for a pod: ``MS_NODE_ID`` is missing.

    MindSpore's scheduler runs in the first worker, not in a pod of its own.
    """

    name = "AscendJob"

    def is_present(self, environ):
        return "MS_LOCAL_WORKER" in environ and "MS_NODE_RANK" in environ and "MS_NODE_ID" not in environ

    def node_info(self, environ):
        hint = Message("the Ascend Operator sets it")
        world_size = count(environ, "MS_WORKER_NUM", hint)
        local = count(environ, "MS_LOCAL_WORKER", hint)
        if world_size % local:
            raise DataParallelError(
                "MS_WORKER_NUM={world_size} is not a multiple of MS_LOCAL_WORKER={local}: {hint}.",
                world_size=world_size,
                local=local,
                hint=hint,
            )
        if environ.get("MS_ROLE") == "MS_SCHED":
            raise DataParallelError(
                "MS_ROLE='MS_SCHED': this pod is to run MindSpore's scheduler alone, but mindnlp-dp run starts it on "
                "the first worker: leave the replica type Scheduler out of the AscendJob."
            )
        num_nodes = world_size // local
        if num_nodes == 1:
            return NodeInfo(system=self.name)
        node_rank = number_below(environ, "MS_NODE_RANK", num_nodes, "MS_WORKER_NUM / MS_LOCAL_WORKER", hint)
        if not environ.get("MS_SCHED_HOST"):
            raise DataParallelError("MS_SCHED_HOST is not set: {hint}.", hint=hint)
        return NodeInfo(num_nodes, node_rank, environ["MS_SCHED_HOST"], port(environ, "MS_SCHED_PORT", hint), self.name)

    def is_one_process(self, environ):
        return self.node_info(environ) and environ["MS_WORKER_NUM"] == "1"


class ListedNodes(NodeEnvironment):
    """A node whose platform numbers it, counts the nodes and lists all of them.

    Attributes:
        number_variable: Holds the node's number.
        count_variable: Holds how many there are.
        hosts_variable: Lists their names or addresses.
    """

    number_variable: str
    count_variable: str
    hosts_variable: str

    def node_info(self, environ):
        hint = tr("{system} sets it", system=self.name)
        num_nodes = count(environ, self.count_variable, hint)
        if num_nodes == 1:
            return NodeInfo(system=self.name)
        node_rank = number_below(environ, self.number_variable, num_nodes, self.count_variable, hint)
        master = first_host(environ.get(self.hosts_variable, ""), self.hosts_variable, num_nodes, hint)
        return NodeInfo(num_nodes, node_rank, master, DEFAULT_PORT, self.name)


class ModelArts(ListedNodes):
    """A node of a ModelArts training job. On a single node ``VC_TASK_INDEX`` means nothing."""

    name = "ModelArts"
    number_variable, count_variable, hosts_variable = "VC_TASK_INDEX", "MA_NUM_HOSTS", "VC_WORKER_HOSTS"

    def is_present(self, environ):
        return "MA_NUM_HOSTS" in environ


class Volcano(NodeEnvironment):
    """A pod of a Volcano job that has the plugins ``env`` and ``svc``. Its task is the one that lists its name."""

    name = "Volcano"

    def is_present(self, environ):
        return ("VC_TASK_INDEX" in environ or "VK_TASK_INDEX" in environ) and bool(_tasks(environ))

    def node_info(self, environ):
        hint = Message("Volcano's plugins env and svc set it")
        tasks = _tasks(environ)
        me = environ.get("HOSTNAME") or socket.gethostname()
        mine = next((task for task, hosts in tasks.items() if me in re.split(r"[,.]", hosts)), None)
        task = next(iter(tasks)) if len(tasks) == 1 else mine
        if task is None:
            raise DataParallelError(
                "none of {variables} lists this pod, {me!r}: {hint}.",
                variables=", ".join(f"VC_{task}_HOSTS" for task in tasks),
                me=me,
                hint=hint,
            )
        num_nodes = count(environ, f"VC_{task}_NUM", hint)
        if num_nodes == 1:
            return NodeInfo(system=self.name)
        index = "VC_TASK_INDEX" if "VC_TASK_INDEX" in environ else "VK_TASK_INDEX"
        node_rank = number_below(environ, index, num_nodes, f"VC_{task}_NUM", hint)
        master = first_host(tasks[task], f"VC_{task}_HOSTS", num_nodes, hint)
        return NodeInfo(num_nodes, node_rank, master, DEFAULT_PORT, self.name)


class SkyPilot(ListedNodes):
    """A node of a SkyPilot task."""

    name = "SkyPilot"
    number_variable, count_variable = "SKYPILOT_NODE_RANK", "SKYPILOT_NUM_NODES"
    hosts_variable = "SKYPILOT_NODE_IPS"

    def is_present(self, environ):
        return "SKYPILOT_NODE_RANK" in environ


def _tasks(environ):
    """The hosts of each task of a Volcano job, by its name."""
    names = (re.fullmatch(r"VC_(.+)_HOSTS", name) for name in environ)
    return {match[1]: environ[match[0]] for match in names if match and f"VC_{match[1]}_NUM" in environ}
