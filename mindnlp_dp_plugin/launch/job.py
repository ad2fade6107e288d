"""What to start: a job as the user asked for it, made sure of, and the processes it consists of on this host."""

import importlib.machinery
import importlib.util
import os
import signal
import sys
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.launch import ports


@dataclass(frozen=True)
class Job:
    """A script on ``num_nodes`` hosts with ``nproc`` ranks each.

    Attributes:
        command: ``[-m] script args...``
        nproc: Ranks on this host.
        backend: ``hccl``, ``mccl`` or ``mpi``.
        log_dir: Where logs and error records go.
        num_nodes: Hosts.
        node_rank: Which of them this is.
        master_addr: IP address of host 0.
        master_port: Port of the scheduler there; with several hosts the launchers talk at the one above.
        trace: Whether a trace of a few steps is left in the log directory.
        name: What tells it from all other jobs.
        restart: How often its ranks have been started again.
        scratch_dir: The private folder for what the ranks show and share, in memory; it goes with the job.
    """

    command: list[str]
    nproc: int
    backend: str
    log_dir: Path
    num_nodes: int = 1
    node_rank: int = 0
    master_addr: str = ports.LOOPBACK
    master_port: int = 0
    trace: bool = False
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    restart: int = 0
    scratch_dir: Path = Path("/dev/shm")

    @property
    def world_size(self) -> int:
        """Ranks over all hosts."""
        return self.num_nodes * self.nproc

    @property
    def local_ranks(self) -> range:
        """The ranks of this host."""
        return range(self.node_rank * self.nproc, (self.node_rank + 1) * self.nproc)

    def again(self) -> "Job":
        """The same job, to be started once more, with logs of its own."""
        first = self.log_dir.parent if self.restart else self.log_dir
        return replace(self, restart=self.restart + 1, log_dir=first / f"restart_{self.restart + 1}")


@dataclass(frozen=True)
class Process:
    """A process to start.

    Attributes:
        name: ``rank 3``, ``scheduler`` or ``mpirun``.
        rank: Its rank; None if it is none.
        argv: The command.
        environ: Variables on top of the launcher's own.
        log: The file that takes its standard output and error.
        on_launcher_death: The signal it gets if the launcher dies.
    """

    name: str
    rank: int | None
    argv: list[str]
    environ: dict[str, str]
    log: Path
    on_launcher_death: signal.Signals = signal.SIGKILL


def worker_argv(command: list[str]) -> list[str]:
    """The command of a rank: the runner around the user's script."""
    return [sys.executable, "-m", "mindnlp_dp_plugin.runtime.worker", *command]


def require_script(command: list[str]) -> None:
    """Makes sure there is something to run.

    Raises:
        DataParallelError: The file or the module does not exist.
    """
    if command[0] != "-m":
        if not os.path.exists(command[0]):  # not pathlib's, which raises for some names
            raise DataParallelError(f"script {command[0]!r} does not exist: check the path (modules need -m).")
    else:
        package = command[1].partition(".")[0]
        here = importlib.machinery.PathFinder.find_spec(package, [os.getcwd()])
        if not package or (here is None and importlib.util.find_spec(package) is None):
            raise DataParallelError(f"module {command[1]!r} cannot be found: check the name, or install it.")


def require_master(num_nodes: int, node_rank: int, master_addr: str | None, master_port: int | None) -> tuple[str, int]:
    """Where the scheduler listens, checked on the host it belongs to.

    Args:
        num_nodes: Hosts.
        node_rank: Which of them this is.
        master_addr: As the user gave it, or None.
        master_port: As the user gave it, or None: a free one.

    Raises:
        DataParallelError: Several hosts without a meeting point, a node rank out of range, or a port that is taken.
    """
    if node_rank >= num_nodes:
        raise DataParallelError(f"--node-rank {node_rank} must be below --nnodes {num_nodes}: hosts count from 0.")
    if num_nodes > 1 and (master_addr is None or master_port is None):
        raise DataParallelError(
            f"--nnodes {num_nodes} needs --master-addr and --master-port: give all hosts the same address of host 0 "
            "and a port that is free there."
        )
    address = ports.LOOPBACK if master_addr is None else ports.resolve(master_addr)
    if master_port is None:
        return address, ports.free_port()
    if num_nodes > 1 and master_port == ports.HIGHEST:
        raise DataParallelError(f"--master-port {master_port} leaves no port above it, where the launchers talk.")
    if node_rank == 0:
        needed = [master_port] if num_nodes == 1 else [master_port, ports.control_port(master_port)]
        for port in needed:
            ports.require_free(address, port, master_port)
    return address, master_port
