"""Settings in the environment, and what earlier jobs have left there, and running."""

import os

import psutil

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import VARIABLES, detect

MARKS_OF_A_RANK = ("MS_ROLE", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
LAUNCHERS = ("mindnlp", "msrun", "mpirun", "mpiexec", "prte", "orted", "hydra", "slurm")


def plugin_settings() -> Finding:
    """Whether the plugin's variables have valid names and values."""
    try:
        config = DataParallelConfig.from_env()
    except DataParallelError as error:
        return failure(str(error), "export a valid value, or unset the variable")
    return ok(str(config).partition("(")[2].rstrip(")"))


def variables_of_a_job() -> Finding:
    """Whether this shell has variables of a launcher, with which a plain ``python`` would take itself for a rank."""
    try:
        takes_itself_for = detect().launcher
    except DataParallelError as error:
        takes_itself_for = str(error)
    if takes_itself_for == "none":
        return ok("none left over")
    return warning(
        "{variables} exported in this shell: a plain python waits for other ranks ({takes_itself_for})",
        "unset {variables}; mindnlp-dp run ignores them",
        variables=" ".join(name for name in VARIABLES if name in os.environ),
        takes_itself_for=takes_itself_for,
    )


def stale_ranks() -> Finding:
    """Whether ranks are running whose launcher is gone."""
    stale = {process.pid: command for process in psutil.process_iter() if (command := command_of_orphan(process))}
    if not stale:
        return ok("no ranks without a launcher")
    return warning(
        "ranks of an earlier job whose launcher is gone: {processes}",
        "kill {pids}; on Ascend wait ten seconds before the next job",
        processes=", ".join(f"{pid} ({command})" for pid, command in sorted(stale.items())),
        pids=" ".join(map(str, sorted(stale))),
    )


def command_of_orphan(process: psutil.Process) -> str | None:
    """The command of a Python rank whose launcher is gone; None for any other process."""
    try:
        if not process.name().startswith("python") or process.status() == psutil.STATUS_ZOMBIE:
            return None
        parent = process.parent()
        if parent is None or not any(mark in process.environ() for mark in MARKS_OF_A_RANK):
            return None
        has_launcher = any(word in " ".join(parent.cmdline()) for word in LAUNCHERS)
        is_taken_in = parent.pid == 1 or parent.name() == "systemd"  # process 1 of a container may be the launcher
        return " ".join(process.cmdline())[:60] if is_taken_in and not has_launcher else None
    except (psutil.NoSuchProcess, psutil.AccessDenied):  # gone meanwhile, or another user's
        return None
