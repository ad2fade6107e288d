"""Options of every command that starts ranks on this node."""

from functools import partial
from pathlib import Path
from typing import Any

import click

from mindnlp_dp_plugin.command_line import Command, option
from mindnlp_dp_plugin.config import BACKENDS
from mindnlp_dp_plugin.job.hardware import num_devices
from mindnlp_dp_plugin.job.variables import of_setting
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.launcher import launch
from mindnlp_dp_plugin.launch.logs import default_log_dir
from mindnlp_dp_plugin.launch.one_machine import require_single_node

MAX_RANKS = 1024  # on a node: more is a slip of the finger


class NumRanks(click.ParamType):
    """A number of ranks, or ``auto``: one per Ascend card, otherwise one per core."""

    name = "integer or auto"

    def convert(self, value, param, ctx):
        """The number."""
        number = num_devices() if value == "auto" else click.IntRange(min=1).convert(value, param, ctx)
        if number > MAX_RANKS:
            self.fail(tr("{number} ranks on a node are too many: give at most {most}.", number=number, most=MAX_RANKS))
        return number


nproc = partial(
    option,
    "--nproc",
    "--nproc-per-node",
    "-n",
    "nproc",
    type=NumRanks(),
    help="Ranks on this node; auto: one per Ascend card, otherwise one per core.",
)
backend = option(
    "--backend",
    type=click.Choice(BACKENDS),
    default="auto",
    envvar=of_setting("backend"),
    show_default=True,
    help="The kind of engine; auto: hccl on Ascend; on CPU mpi, or mccl if the script uses MindSpore's own loops.",
)
log_dir = option(
    "--log-dir",
    type=click.Path(path_type=Path),
    default=default_log_dir,
    show_default="mindnlp_dp_logs/<time>",
    help="Folder for one log per rank and result.json.",
)


class OnThisNode(Command):
    """A command that starts ranks of the plugin's own; on each of several nodes it would do the same."""

    def invoke(self, ctx: click.Context) -> int:
        """Reject several nodes first."""
        require_single_node(ctx.command_path)
        return super().invoke(ctx)


def start(module: list[str], nproc: int, engine: str, log_dir: Path, **asked: Any) -> int:
    """Run a module with arguments on ranks of this node; returns the exit status."""
    return launch(Job(["-m", *module], nproc, engine, log_dir, **asked))


def with_dashes(name: str) -> str:
    """Accept underscores in options, as torchrun and msrun do."""
    return name.replace("_", "-")
