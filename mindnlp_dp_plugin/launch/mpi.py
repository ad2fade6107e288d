"""MPI: the mpirun command that starts the ranks, and how to read which rank it reports."""

import importlib.util
import os
import re
import shutil
import sys

from mindnlp_dp_plugin.job.hardware import has_shared_memory_for
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.job import Job, Process, worker_argv
from mindnlp_dp_plugin.launch.terminal import tell_note

# Open MPI 5, which breaks these lines at about 80 characters.
KILLED = re.compile(r"process\s+rank\s+(\d+)\s+with\s+PID\s+\d+\s+on\s+node\s+\S+\s+exited\s+on\s+signal\s+(\d+)")
EXITED = re.compile(r"Process name:\s+\[\S+?,(\d+)\]\s+Exit code:\s+(\d+)")


def missing() -> str | None:
    """What is not installed."""
    if importlib.util.find_spec("mpi4py") is None:
        return "mpi4py"
    return None if find_mpirun() else "mpirun"


def find_mpirun() -> str | None:
    """The ``mpirun`` of this Python's environment, otherwise the one on the PATH."""
    return shutil.which("mpirun", path=os.path.dirname(sys.executable)) or shutil.which("mpirun")


def processes(job: Job) -> list[Process]:
    """The one process to start. Ranks write their own logs; mpirun's output goes to ``mpirun.log``."""
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    # The worker pins itself, and more ranks than cores are allowed for trying things out.
    placement = ["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]
    # One node, whatever else a batch system has allocated.
    placement += ["--prtemca", "ras", "^slurm,lsf,pbs,gridengine"]
    # A rank that leaves by os._exit(0) is no failure, unless others wait for it: the monitor sees that.
    placement += ["--prtemca", "prte_allowed_exit_without_sync", "1"]
    # Shared memory, which is not left behind, and no port of a rank is open to the network.
    transport, session = ["--mca", "btl", "self,sm"], []
    if job.scratch_dir and not has_shared_memory_for(job.nproc):
        transport = ["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"]
        tell_note(
            tr(
                "/dev/shm has too little room, so ranks exchange gradients over TCP on loopback, more slowly: start "
                "the container with --shm-size=2g or --ipc=host"
            )
        )
    elif job.scratch_dir:
        transport += ["--mca", "btl_sm_backing_directory", str(job.scratch_dir)]
    if job.scratch_dir:
        session = ["--prtemca", "prte_tmpdir_base", str(job.scratch_dir)]
    launcher = [find_mpirun(), *as_root, *placement, *transport, *session]
    argv = [*launcher, "-n", str(job.nproc), *worker_argv(job.command)]
    log = job.log_dir / "mpirun.log"
    home = {} if os.environ.get("HOME") else {"HOME": os.path.expanduser("~")}  # mpirun does not start without
    return [Process("mpirun", None, argv, home, log)]


def first_to_end(last_words: str) -> tuple[int, int] | None:
    """Which rank mpirun reports as failed.

    Args:
        last_words: The end of mpirun's output.

    Returns:
        The rank and its status as ``subprocess`` gives it, negative for a signal; None if mpirun itself failed.
    """
    if match := KILLED.search(last_words):
        return int(match[1]), -int(match[2])
    if match := EXITED.search(last_words):
        return int(match[1]), int(match[2])
    return None
