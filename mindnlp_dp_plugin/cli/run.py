"""``mindnlp-dp run``: a script on N ranks."""

import os
from dataclasses import replace

import click

from mindnlp_dp_plugin.cli import launching
from mindnlp_dp_plugin.command_line import Command, option
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import detect_node
from mindnlp_dp_plugin.job.network import resolve
from mindnlp_dp_plugin.job.rank_info import NodeInfo
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch import backends
from mindnlp_dp_plugin.launch.job import Job, Seats, require_master, require_script, require_secret
from mindnlp_dp_plugin.launch.launcher import describe, launch, plan

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
@option("--bind-address", help="Where node 0 listens, if its address for the others is not one of its own.")
@option("--secret-file", help="File (mode 0600) with the secret of the nodes. Default: MINDNLP_DP_SECRET.")
@option("--insecure", is_flag=True, help="Let several nodes work together without a secret.")
@launching.backend
@launching.log_dir
@option("--tee", type=click.Choice(["0", "all"]), default="0", show_default=True, help="The ranks to show.")
@option(
    "--max-restarts",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="How often all ranks may start again from the newest checkpoint of this job; training that got further renews "
    "the count.",
)
@option(
    "--resume",
    is_flag=True,
    help="Go on from the newest whole checkpoint in each output_dir, if there is one: for jobs that are requeued.",
)
@option(
    "--grace",
    type=click.FloatRange(min=0),
    help="Seconds for the ranks to end by themselves after SIGTERM, SIGUSR1 or SIGUSR2, which they are sent. Default: "
    "30; on Slurm, after SIGUSR1 or SIGUSR2, what is left of the job's time.",
)
@option("--trace", is_flag=True, help="Write a trace of a few steps, trace.json, into the log directory.")
@option("--dry-run", is_flag=True, help="Print the commands for a shell, and start nothing.")
@option("-m", "as_module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(
    nproc,
    num_ranks,
    nnodes,
    node_rank,
    master_addr,
    master_port,
    standalone,
    bind_address,
    secret_file,
    insecure,
    backend,
    log_dir,
    tee,
    max_restarts,
    resume,
    grace,
    trace,
    dry_run,
    as_module,
    script,
    args,
):
    """Run SCRIPT with ARGS on N ranks, as `python SCRIPT ARGS` would on one.

    Shows rank 0's output and writes every rank's to the log directory. If a rank fails, all end, and the first to fail
    is named with its traceback.

    On Slurm (srun with one task per node), Kubernetes (PyTorchJob, Volcano, AscendJob), ModelArts, SkyPilot and Alibaba
    PAI, the same command on each node is enough.
    """
    command = ["-m", script, *args] if as_module else [script, *args]
    require_script(command)
    config = DataParallelConfig.from_env()
    least, most = nnodes or (None, None)
    node = _node(most, node_rank, master_addr, master_port, standalone)
    nproc = _ranks_per_node(nproc, num_ranks, node.num_nodes)
    bind_address = bind_address and resolve(bind_address, 0, "--bind-address")
    address, port = require_master(node, config.timeout, bind_address)
    secret = require_secret(node, address, secret_file, insecure)
    engine = backends.choose(backend, node.num_nodes)
    job = Job(command, nproc, engine, log_dir, node.num_nodes, node.node_rank, address, port, trace, tee == "all")
    job = replace(job, secret=secret, bind_address=bind_address, grace=grace, resume=resume, max_restarts=max_restarts)
    if least != most:
        job = replace(job, seats=Seats(least, most, node.node_rank, frozenset(range(most))))
    if dry_run:
        processes = plan(job)
        for process in processes:
            click.echo(os.fsencode(describe(process, in_background=len(processes) > 1)))  # file names may be any bytes
        return 0
    return launch(job)


def _node(nnodes, node_rank, master_addr, master_port, standalone) -> NodeInfo:
    """What the user said counts; where nothing is said of several nodes, what the cluster's system says."""
    if standalone and (nnodes or node_rank or master_addr):
        raise DataParallelError("--standalone means a single node: leave out --nnodes, --node-rank and --master-addr.")
    if nnodes is None and node_rank is None and master_addr is None and not standalone:
        node = detect_node()
        if node.num_nodes > 1:
            port = node.master_port if master_port is None else master_port
            return NodeInfo(node.num_nodes, node.node_rank, node.master_addr, port, node.system)
    return NodeInfo(nnodes or 1, node_rank or 0, master_addr, master_port)


def _ranks_per_node(nproc, num_ranks, num_nodes) -> int:
    if (nproc is None) == (num_ranks is None):
        raise click.UsageError(
            tr("Missing option '--nproc'.") if nproc is None else tr("Give one of --nproc and --num-processes.")
        )
    if num_ranks is None:
        return nproc
    if num_ranks % num_nodes:
        raise DataParallelError(
            "--num-processes {num_ranks} is not a multiple of the {num_nodes} nodes.",
            num_ranks=num_ranks,
            num_nodes=num_nodes,
        )
    return num_ranks // num_nodes
