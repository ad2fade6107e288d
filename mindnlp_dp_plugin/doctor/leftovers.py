"""Ranks of earlier jobs that outlived their launcher: they hold cores, memory, ports and devices."""

import psutil

from mindnlp_dp_plugin.doctor.finding import Finding, ok, warning
from mindnlp_dp_plugin.language import tr

MARKS_OF_A_RANK = ("MS_ROLE", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
# Who takes in processes whose parent is gone, unless it is itself the launcher (as in a container).
REAPERS = ("systemd", "init", "tini", "dumb-init", "docker-init", "catatonit")
LAUNCHERS = ("mindnlp", "msrun", "mpirun", "mpiexec", "prte", "orted", "hydra", "slurm")


def stale_ranks() -> Finding:
    """Whether ranks are running whose launcher is gone."""
    stale = sorted(process.pid for process in psutil.process_iter() if is_orphaned_rank(process))
    if not stale:
        return ok("stale processes", tr("no ranks without a launcher"))
    pids = " ".join(str(pid) for pid in stale)
    found = tr(
        "ranks of an earlier job whose launcher is gone: {processes}", processes=", ".join(map(_describe, stale))
    )
    return warning(
        "stale processes", found, tr("kill {pids}; on Ascend wait ten seconds before the next job", pids=pids)
    )


def is_orphaned_rank(process: psutil.Process) -> bool:
    """Whether a process is a Python rank whose launcher is gone."""
    try:
        if not process.name().startswith("python") or process.status() == psutil.STATUS_ZOMBIE:
            return False
        return any(mark in process.environ() for mark in MARKS_OF_A_RANK) and _is_orphaned(process)
    except (psutil.NoSuchProcess, psutil.AccessDenied):  # gone meanwhile, or another user's
        return False


def _is_orphaned(process) -> bool:
    parent = process.parent()
    if parent is None:
        return False
    command = " ".join(parent.cmdline())
    return (parent.pid == 1 or parent.name() in REAPERS) and not any(word in command for word in LAUNCHERS)


def _describe(pid) -> str:
    try:
        return f"{pid} ({' '.join(psutil.Process(pid).cmdline())[:60]})"
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return str(pid)
