"""Slurm: ``srun`` starts a rank, or ``mindnlp-dp run`` on each node. https://slurm.schedmd.com/srun.html

A shell within ``salloc``, and the batch step of ``sbatch``, have most of these variables, too, and are one process:
those of the step tell.
"""

import re

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments.base import Environment, count, number, number_below
from mindnlp_dp_plugin.job.rank_info import NodeInfo, RankInfo
from mindnlp_dp_plugin.language import Message

HINT = Message("srun sets it; outside of Slurm, unset SLURM_STEP_ID")
FIRST_PORT, NUM_PORTS = 15000, 17000  # below the ports that systems give to clients


class Slurm(Environment):
    """A step of several tasks."""

    def is_present(self, environ):
        return "SLURM_STEP_ID" in environ and count(environ, "SLURM_STEP_NUM_TASKS", HINT) > 1

    def rank_info(self, environ):
        world_size = count(environ, "SLURM_STEP_NUM_TASKS", HINT)
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
            rank=number_below(environ, "SLURM_PROCID", world_size, "SLURM_STEP_NUM_TASKS", HINT),
            world_size=world_size,
            local_rank=number_below(environ, "SLURM_LOCALID", tasks[node_rank], Message("its node's tasks"), HINT),
            local_world_size=tasks[node_rank],
            launcher="srun",
            scheduler=(_first_node(environ), _port(environ)),
        )

    def node_info(self, environ):
        tasks = _tasks_per_node(environ)
        if max(tasks) > 1:
            raise DataParallelError(
                "srun started mindnlp-dp run {times} times on a node (SLURM_STEP_TASKS_PER_NODE={tasks}), and each "
                "would start ranks of its own: give srun --ntasks-per-node=1, or let it start the script itself, with "
                "`import mindnlp_dp_plugin` first.",
                times=max(tasks),
                tasks=environ["SLURM_STEP_TASKS_PER_NODE"],
            )
        node_rank = number_below(environ, "SLURM_NODEID", len(tasks), Message("the step's nodes"), HINT)
        return NodeInfo(len(tasks), node_rank, _first_node(environ), _port(environ), "Slurm")


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
    """Another one for each step, and free the one above: the launchers of several nodes talk there."""
    step = 64 * number(environ, "SLURM_JOB_ID", HINT) + 2 * number(environ, "SLURM_STEP_ID", HINT)
    return FIRST_PORT + step % NUM_PORTS
