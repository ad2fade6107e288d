"""A job as the user asked for it, checked, and its processes."""

import importlib.util
import json
import os
import sys
import uuid
from dataclasses import dataclass, field, replace
from importlib.machinery import PathFinder
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.launch import ports
from mindnlp_dp_plugin.launch.options import RunOptions


@dataclass(frozen=True)
class Job(RunOptions):
    """A script on ``nproc`` ranks, and the options it was given.

    Attributes:
        command: ``[-m] script args...``
        nproc: How many ranks.
        backend: ``hccl``, ``mccl`` or ``mpi``.
        log_dir: The folder for logs and error records.
        master_port: Port of MindSpore's scheduler, and ``MASTER_PORT`` of the ranks.
        name: What tells it from all other jobs.
        restart: How often its ranks have been started again.
        scratch_dir: The private folder for what the ranks show and share, in memory; it goes with the job. None in a
            dry run.
    """

    command: list[str]
    nproc: int
    backend: str
    log_dir: Path
    master_port: int = field(default_factory=ports.free_port)
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    restart: int = 0
    scratch_dir: Path | None = None

    @property
    def ranks(self) -> range:
        """All ranks."""
        return range(self.nproc)

    @property
    def first_log_dir(self) -> Path:
        """The log directory of the first start."""
        return self.log_dir.parent if self.restart else self.log_dir

    def again(self) -> "Job":
        """This job for another start: with logs of that, and another port."""
        restart = self.restart + 1
        log_dir = self.first_log_dir / f"restart_{restart}"
        return replace(self, restart=restart, log_dir=log_dir, master_port=ports.free_port())


@dataclass(frozen=True)
class Process:
    """A process to start.

    Attributes:
        name: ``rank 3``, ``scheduler`` or ``mpirun``.
        rank: Its rank; None if it is not a rank.
        argv: The command.
        environ: Variables added to the launcher's.
        log: The file for its standard output and error.
        outlives_preemption: Whether the ranks need it to end in good order.
    """

    name: str
    rank: int | None
    argv: list[str]
    environ: dict[str, str]
    log: Path
    outlives_preemption: bool = False


def worker_argv(command: list[str]) -> list[str]:
    """The command of a rank: the runner around the user's script."""
    worker = [sys.executable, "-m", "mindnlp_dp_plugin.runtime.worker"]
    # mpirun takes a lone colon for the end of its program's arguments.
    return [*worker, "--json", json.dumps(command)] if ":" in command else [*worker, *command]


def require_script(command: list[str]) -> None:
    """Check that Python finds what is to be run, before ranks start.

    Raises:
        DataParallelError: If the file or the module does not exist, or cannot be run.
    """
    name = command[1] if command[0] == "-m" else command[0]
    if command[0] == "-m":
        top = name.partition(".")[0]  # nothing is imported to look
        if not top or not (PathFinder.find_spec(top, [os.getcwd()]) or importlib.util.find_spec(top)):
            raise DataParallelError("module {module!r} cannot be found: check the name, or install it.", module=name)
    elif not os.path.exists(name):  # not pathlib's, which raises for some names
        raise DataParallelError("script {script!r} does not exist: check the path (modules need -m).", script=name)
    elif os.path.isdir(name) and not os.path.exists(os.path.join(name, "__main__.py")):
        raise DataParallelError("script {script!r} is a folder without __main__.py: give a file in it.", script=name)
