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
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch import backends
from mindnlp_dp_plugin.launch.job import Job, require_script
from mindnlp_dp_plugin.launch.launcher import describe, launch, plan
from mindnlp_dp_plugin.launch.one_machine import FLAGS_GONE, VALUES_GONE, require_one_machine
from mindnlp_dp_plugin.launch.options import RunOptions
from mindnlp_dp_plugin.launch.ports import free_port
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


def options_gone(command):
    """A decorator: options of earlier versions, most of which asked for several machines; no help shows them."""

    def refuse_trace(context, parameter, is_given):
        if is_given:
            raise click.UsageError(tr("--trace was removed: --profile writes the trace of a few steps, too."), context)

    command = option("--trace", hidden=True, is_flag=True, expose_value=False, callback=refuse_trace)(command)
    for name in VALUES_GONE:
        number = click.IntRange(min=1) if name in ("num_processes", "worker_num") else None
        command = option(f"--{name.replace('_', '-')}", name, hidden=True, type=number)(command)
    for name in FLAGS_GONE:
        command = option(f"--{name}", name, hidden=True, is_flag=True)(command)
    return command


@click.command(cls=OfAScript, context_settings=SETTINGS, options_metavar="[OPTIONS] [-m]", no_args_is_help=False)
@launching.nproc()
@option("--master-port", type=click.IntRange(1, 65535), help="Port of MindSpore's scheduler. Default: a free port.")
@launching.backend
@launching.log_dir
@options_of_the_job
@options_gone
@option("--dry-run", is_flag=True, help="Print the commands for a shell, and start nothing.")
@option("-m", "as_module", is_flag=True, help="SCRIPT is the name of a module.")
@click.argument("script")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(**given):
    """Run SCRIPT with ARGS on N ranks, as `python SCRIPT ARGS` would on one.

    Shows rank 0's output and writes every rank's to the log directory. If a rank fails, all end, and you see the
    traceback of the first that failed.

    msrun, mpirun, srun, torchrun or Ray start ranks on several machines: docs/guide/several-nodes.
    """
    job = _job(SimpleNamespace(**given), RunOptions(**{field.name: given[field.name] for field in fields(RunOptions)}))
    if not given["dry_run"]:
        return launch(job)
    processes = plan(job)
    for process in processes:
        click.echo(os.fsencode(describe(process, in_background=len(processes) > 1)))  # file names may be any bytes
    return 0


def _job(given, asked) -> Job:
    command = [*(["-m"] if given.as_module else []), given.script, *given.args]
    require_script(command)
    DataParallelConfig.from_env()
    gone = {name: getattr(given, name) for name in (*FLAGS_GONE, *VALUES_GONE)}
    require_one_machine(gone, given.nproc, given.backend, given.master_port, asked, command)
    if given.nproc is None:
        raise click.UsageError(tr("Missing option '--nproc'."))
    port = free_port(given.master_port or 0)
    return Job(command, given.nproc, _engine(given), given.log_dir, port, **vars(asked))


def _engine(given) -> str:
    """Of what ``auto`` may choose, what the script needs."""
    asks = given.backend == "auto" and not given.as_module
    name = cluster_name_in(Path(given.script)) if asks else None
    engine = backends.choose(given.backend, needs_cluster=name is not None)
    if name and engine != backends.choose("auto"):
        tell_note(tr("{script} uses {name}: --backend {engine}", script=given.script, name=name, engine=engine))
    return engine
