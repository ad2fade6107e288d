"""Slurm: ``srun`` starts ranks. https://slurm.schedmd.com/srun.html

A shell within ``salloc``, and the batch step of ``sbatch``, have most of these variables, too, and are one process:
those of the step tell. ``mindnlp-dp run`` there would leave the allocation's other nodes idle.
"""

import re

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments.base import Environment, number
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.several_nodes import Nodes
from mindnlp_dp_plugin.language import Message, tr

HINT = Message("srun sets it; outside of Slurm, unset SLURM_STEP_ID")
FIRST_PORT, NUM_PORTS = 15000, 17000  # below the ports that systems give to clients
FIRST_OWN_STEP = 2**32 - 16


class Slurm(Environment):
    """A step of several tasks."""

    def is_present(self, environ):
        return "SLURM_STEP_ID" in environ and number(environ, "SLURM_STEP_NUM_TASKS", HINT, 1) > 1

    def rank_info(self, environ):
        world_size = number(environ, "SLURM_STEP_NUM_TASKS", HINT, 1)
        tasks, node_rank = _tasks_per_node(environ), number(environ, "SLURM_NODEID", HINT)
        if sum(tasks) != world_size or node_rank >= len(tasks):
            raise DataParallelError(
                "SLURM_STEP_TASKS_PER_NODE={tasks} does not fit SLURM_STEP_NUM_TASKS={world_size} and "
                "SLURM_NODEID={node_rank}: {hint}.",
                tasks=environ["SLURM_STEP_TASKS_PER_NODE"],
                world_size=world_size,
                node_rank=node_rank,
                hint=HINT,
            )
        return RankInfo(
            rank=number(environ, "SLURM_PROCID", HINT, 0, world_size - 1),
            world_size=world_size,
            local_rank=number(environ, "SLURM_LOCALID", HINT, 0, tasks[node_rank] - 1),
            local_world_size=tasks[node_rank],
            launcher="srun",
            scheduler=(_first_node(environ), _port(environ)),
        )

    def nodes(self, environ):
        if self.is_present(environ):
            num_nodes, num_tasks = len(_tasks_per_node(environ)), number(environ, "SLURM_STEP_NUM_TASKS", HINT, 1)
            if num_nodes == 1:
                return Nodes(tr("srun ({number} tasks)", number=num_tasks), 1, "srun")
        elif _is_in_a_step(environ) or "SLURM_JOB_NUM_NODES" not in environ:
            return None
        else:
            num_nodes = number(environ, "SLURM_JOB_NUM_NODES", HINT, 1)
        asked_by = tr("{system} ({number} nodes)", system="Slurm", number=num_nodes)
        return Nodes(asked_by, num_nodes, "srun") if num_nodes > 1 else None


def _is_in_a_step(environ):
    """Whether srun has started this: the shell of an allocation, and a batch script, are steps of Slurm's own."""
    return "SLURM_STEP_ID" in environ and number(environ, "SLURM_STEP_ID", HINT) < FIRST_OWN_STEP


def _tasks_per_node(environ):
    """``2(x3),1`` is three nodes with two tasks and one with one."""
    text = environ.get("SLURM_STEP_TASKS_PER_NODE", "")
    if not re.fullmatch(r"\d{1,6}(\(x\d{1,6}\))?(,\d{1,6}(\(x\d{1,6}\))?)*", text):
        raise DataParallelError(
            "SLURM_STEP_TASKS_PER_NODE={text!r} is not a list of numbers of tasks: {hint}.", text=text, hint=HINT
        )
    parts = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    return [int(tasks) for tasks, times in parts for _ in range(int(times or 1))]


def _first_node(environ):
    """The first of ``rack[1-2]node[03-04],other``: rack1node03. On a single node, loopback."""
    if len(_tasks_per_node(environ)) == 1:
        return "127.0.0.1"
    nodes = environ.get("SLURM_STEP_NODELIST", "")
    first = re.match(r"(?:\[[^\]]*\]|[^,\[])*", nodes)[0]
    if not first:
        raise DataParallelError("SLURM_STEP_NODELIST={nodes!r} names no node: {hint}.", nodes=nodes, hint=HINT)
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", first)


def _port(environ):
    """Another one for each step."""
    step = 64 * number(environ, "SLURM_JOB_ID", HINT) + 2 * number(environ, "SLURM_STEP_ID", HINT)
    return FIRST_PORT + step % NUM_PORTS
