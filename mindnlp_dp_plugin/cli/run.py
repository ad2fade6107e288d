"""``mindnlp-dp run``: a script on N ranks."""

import os

import click

from mindnlp_dp_plugin.cli import launching
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.launch import backends
from mindnlp_dp_plugin.launch.job import Job, require_master, require_script
from mindnlp_dp_plugin.launch.launcher import describe, launch, plan


@click.command(context_settings={"allow_interspersed_args": False}, options_metavar="[OPTIONS] [-m]")
@launching.nproc
@click.option("--nnodes", type=click.IntRange(min=1), default=1, show_default=True, help="Hosts.")
@click.option("--node-rank", type=click.IntRange(min=0), default=0, show_default=True, help="Which host this is.")
@click.option("--master-addr", help="Address of host 0; needed for several hosts.")
@click.option("--master-port", type=click.IntRange(1, 65535), help="Port there. On a single host: a free one.")
@launching.backend
@launching.log_dir
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="How often all ranks start again, from the newest checkpoint of this run, after one has failed.",
)
@click.option("--trace", is_flag=True, help="Leave a trace of a few steps, trace.json, among the logs.")
@click.option("--dry-run", is_flag=True, help="Only print what would be started.")
@click.option("-m", "as_module", is_flag=True, help="SCRIPT is a module.")
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(
    nproc,
    nnodes,
    node_rank,
    master_addr,
    master_port,
    backend,
    log_dir,
    max_restarts,
    trace,
    dry_run,
    as_module,
    script,
    args,
):
    """Run SCRIPT with ARGS on N ranks, as `python SCRIPT ARGS` would on one.

    Rank 0's output is shown; every rank's is in the log directory. If a rank fails, all are ended and the one that
    failed first is named, with its traceback.
    """
    command = ["-m", script, *args] if as_module else [script, *args]
    require_script(command)
    DataParallelConfig.from_env()
    if max_restarts and nnodes > 1:
        raise DataParallelError(
            f"--max-restarts {max_restarts} does not go with --nnodes {nnodes}: the hosts would not start again "
            "together. Start each host again by hand, with trainer.train(resume_from_checkpoint=True)."
        )
    address, port = require_master(nnodes, node_rank, master_addr, master_port)
    job = Job(command, nproc, backends.choose(backend, nnodes), log_dir, nnodes, node_rank, address, port, trace)
    if dry_run:
        for process in plan(job):
            click.echo(os.fsencode(describe(process)))  # names of files may be any bytes
        return 0
    return launch(job, max_restarts)
