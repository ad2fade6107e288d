"""``mindnlp-dp run``: a script on N ranks.

Options that say where the job runs are declared here, those that it takes as they are in ``launch/options.py``; what
was given comes as one namespace.
"""

import os
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import click

from mindnlp_dp_plugin.cli import launching
from mindnlp_dp_plugin.command_line import Command, option
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import detect_node
from mindnlp_dp_plugin.job.rank_info import NodeInfo
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch import backends
from mindnlp_dp_plugin.launch.job import Job, Seats, require_master, require_script, require_secret
from mindnlp_dp_plugin.launch.launcher import describe, launch, plan
from mindnlp_dp_plugin.launch.options import RunOptions
from mindnlp_dp_plugin.launch.script_names import cluster_name_in
from mindnlp_dp_plugin.launch.terminal import tell_note

SETTINGS = {"allow_interspersed_args": False, "token_normalize_func": launching.with_dashes}


class OfAScript(Command):
    """A command with options, a script, and the script's own options behind it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, but who gives an option of the script too early is told so."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            words = tr("{error} Options of the script come after its name.", error=error.format_message())
            raise click.UsageError(words, ctx) from None


def options_of_the_job(command):
    """A decorator: one option for each field of ``RunOptions``."""
    for field in reversed(fields(RunOptions)):
        name, settings = field.metadata["name"], field.metadata["settings"]
        command = option(name, field.name, default=field.default, **settings)(command)
    return command


@click.command(cls=OfAScript, context_settings=SETTINGS, options_metavar="[OPTIONS] [-m]", no_args_is_help=False)
@launching.nproc()
@option(
    "--num-processes",
    "--worker-num",
    "num_ranks",
    type=click.IntRange(min=1),
    help="Ranks over all nodes, instead of --nproc.",
)
@option(
    "--nnodes",
    type=launching.NumNodes(),
    help="Number of nodes; MIN:MAX: goes on with those left. Default: from the cluster's variables, otherwise 1.",
)
@option("--node-rank", type=click.IntRange(min=0), help="Rank of this node. Default: from the cluster's variables.")
@option("--master-addr", help="Address of node 0. Default: from the cluster's variables.")
@option("--master-port", type=click.IntRange(1, 65535), help="Port on node 0. Default on a single node: a free port.")
@option("--standalone", is_flag=True, help="Run on this node only, whatever the cluster's variables say.")
@option("--secret-file", help="File (mode 0600) with the secret of the nodes. Default: MINDNLP_DP_SECRET.")
@option("--insecure", is_flag=True, help="Let several nodes work together without a secret.")
@launching.backend
@launching.log_dir
@options_of_the_job
@option("--dry-run", is_flag=True, help="Print the commands for a shell, and start nothing.")
@option("-m", "as_module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(**given):
    """Run SCRIPT with ARGS on N ranks, as `python SCRIPT ARGS` would on one.

    Shows rank 0's output and writes every rank's to the log directory. If a rank fails, all end, and the first to fail
    is named with its traceback.

    On Slurm (srun with one task per node), Kubernetes (PyTorchJob, Volcano, AscendJob), ModelArts, SkyPilot and Alibaba
    PAI, the same command on each node is enough.
    """
    job = _job(SimpleNamespace(**given), {field.name: given[field.name] for field in fields(RunOptions)})
    if not given["dry_run"]:
        return launch(job)
    processes = plan(job)
    for process in processes:
        click.echo(os.fsencode(describe(process, in_background=len(processes) > 1)))  # file names may be any bytes
    return 0


def _job(given, as_it_is) -> Job:
    command = [*(["-m"] if given.as_module else []), given.script, *given.args]
    require_script(command)
    timeout = DataParallelConfig.from_env().timeout
    node = _node(given)
    nproc = _ranks_per_node(given, node.num_nodes)
    address, port = require_master(node, timeout, given.bind_address)
    secret = require_secret(node, address, given.secret_file, given.insecure)
    least, most = given.nnodes or (None, None)
    return Job(
        command,
        nproc,
        _engine(given, node.num_nodes),
        given.log_dir,
        node.num_nodes,
        node.node_rank,
        address,
        port,
        secret=secret,
        seats=None if least == most else Seats(least, most, node.node_rank, frozenset(range(most))),
        **as_it_is,
    )


def _engine(given, num_nodes) -> str:
    """Of what ``auto`` may choose, what the script needs."""
    asks = given.backend == "auto" and not given.as_module
    name = cluster_name_in(Path(given.script)) if asks else None
    engine = backends.choose(given.backend, num_nodes, needs_cluster=name is not None)
    if name and engine != backends.choose("auto", num_nodes):
        tell_note(tr("{script} uses {name}: --backend {engine}", script=given.script, name=name, engine=engine))
    return engine


def _node(given) -> NodeInfo:
    """What the user said counts; where nothing is said of several nodes, what the cluster's system says."""
    if given.standalone and (given.nnodes or given.node_rank or given.master_addr):
        raise DataParallelError("--standalone means a single node: leave out --nnodes, --node-rank and --master-addr.")
    is_said = given.standalone or any(each is not None for each in (given.nnodes, given.node_rank, given.master_addr))
    if not is_said and (node := detect_node()).num_nodes > 1:
        port = node.master_port if given.master_port is None else given.master_port
        return NodeInfo(node.num_nodes, node.node_rank, node.master_addr, port, node.system)
    _, most = given.nnodes or (1, 1)
    return NodeInfo(most, given.node_rank or 0, given.master_addr, given.master_port)


def _ranks_per_node(given, num_nodes) -> int:
    if (given.nproc is None) == (given.num_ranks is None):
        raise click.UsageError(
            tr("Missing option '--nproc'.") if given.nproc is None else tr("Give one of --nproc and --num-processes.")
        )
    if given.num_ranks is None:
        return given.nproc
    if given.num_ranks % num_nodes:
        raise DataParallelError(
            "--num-processes {num_ranks} is not a multiple of the {num_nodes} nodes.",
            num_ranks=given.num_ranks,
            num_nodes=num_nodes,
        )
    return launching.NumRanks().convert(given.num_ranks // num_nodes, None, None)
