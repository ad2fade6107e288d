"""Ranks of earlier jobs that outlived their launcher: they hold cores, memory, ports and devices."""

import psutil

from mindnlp_dp_plugin.doctor.finding import Finding, ok, warning

MARKS_OF_A_RANK = ("MS_ROLE", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
# Who takes in processes whose parent is gone, unless it is itself the launcher (as in a container).
REAPERS = ("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit")
LAUNCHERS = ("mindnlp", "msrun", "mpirun", "mpiexec", "prte", "orted", "hydra", "slurm")


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
        is_taken_in = parent.pid == 1 or parent.name() in REAPERS
        return " ".join(process.cmdline())[:60] if is_taken_in and not has_launcher else None
    except (psutil.NoSuchProcess, psutil.AccessDenied):  # gone meanwhile, or another user's
        return None
