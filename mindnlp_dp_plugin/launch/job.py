"""A job as the user asked for it, checked, and its processes on this node."""

import importlib.util
import ipaddress
import json
import os
import signal
import sys
import uuid
from dataclasses import dataclass, field, replace
from importlib.machinery import PathFinder
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import detect_node
from mindnlp_dp_plugin.job.network import resolve
from mindnlp_dp_plugin.job.rank_info import NodeInfo
from mindnlp_dp_plugin.job.secret import read_secret, require_length
from mindnlp_dp_plugin.job.variables import SECRET
from mindnlp_dp_plugin.launch import ports
from mindnlp_dp_plugin.launch.options import RunOptions


@dataclass(frozen=True)
class Seats:
    """The nodes of a job that goes on without some of them. Each has the seat that ``--node-rank`` gave it.

    Attributes:
        least: How many it needs.
        most: How many it was asked for.
        own: The seat of this node.
        taken: The seats of the nodes that are to train.
    """

    least: int
    most: int
    own: int
    taken: frozenset[int]

    def without(self, node_rank: int) -> "Seats":
        """The seats when a node that trained is gone; node ranks count the seats that were taken."""
        return replace(self, taken=self.taken - {sorted(self.taken)[node_rank]})


@dataclass(frozen=True)
class Job(RunOptions):
    """A script on ``num_nodes`` nodes with ``nproc`` ranks each, and the options it was given.

    Attributes:
        command: ``[-m] script args...``
        nproc: Ranks on this node.
        backend: ``hccl``, ``mccl`` or ``mpi``.
        log_dir: The folder for logs and error records.
        num_nodes: Number of nodes that train.
        node_rank: The rank of this node among them.
        master_addr: IP address of node 0.
        master_port: Port of the scheduler there; with several nodes the launchers talk at the one above.
        secret: What launchers of several nodes prove to know, and sign with what ranks send; None if they do not.
        seats: The nodes of a job that goes on without some of them; None if it needs all.
        name: What tells it from all other jobs.
        restart: How often its ranks have been started again.
        scratch_dir: The private folder for what the ranks show and share, in memory; it goes with the job. None in a
            dry run.
    """

    command: list[str]
    nproc: int
    backend: str
    log_dir: Path
    num_nodes: int = 1
    node_rank: int = 0
    master_addr: str = ports.LOOPBACK
    master_port: int = 0
    secret: str | None = None
    seats: Seats | None = None
    name: str = field(default_factory=lambda: uuid.uuid4().hex)
    restart: int = 0
    scratch_dir: Path | None = None

    @property
    def world_size(self) -> int:
        """Ranks over all nodes."""
        return self.num_nodes * self.nproc

    @property
    def world_sizes(self) -> list[int]:
        """The world sizes it may have."""
        return [num * self.nproc for num in range(self.seats.least, self.seats.most + 1)] if self.seats else []

    @property
    def local_ranks(self) -> range:
        """The ranks of this node."""
        return range(self.node_rank * self.nproc, (self.node_rank + 1) * self.nproc)

    @property
    def first_log_dir(self) -> Path:
        """The log directory of the first start."""
        return self.log_dir.parent if self.restart else self.log_dir

    def again(self) -> "Job":
        """This job for another start: with logs of that, and another port if it may choose."""
        port = self.master_port if self.num_nodes > 1 or self.seats else ports.free_port()
        return replace(self.at_start(self.restart + 1), master_port=port)

    def at_start(self, number: int) -> "Job":
        """This job at its first start (0) or at a restart, with the logs of that."""
        log_dir = self.first_log_dir / f"restart_{number}" if number else self.first_log_dir
        return replace(self, restart=number, log_dir=log_dir)


@dataclass(frozen=True)
class Process:
    """A process to start.

    Attributes:
        name: ``rank 3``, ``scheduler`` or ``mpirun``.
        rank: Its rank; None if it is not a rank.
        argv: The command.
        environ: Variables added to the launcher's.
        log: The file for its standard output and error.
        on_launcher_death: The signal it gets if the launcher dies.
        outlives_preemption: Whether the ranks need it to end in good order.
    """

    name: str
    rank: int | None
    argv: list[str]
    environ: dict[str, str]
    log: Path
    on_launcher_death: signal.Signals = signal.SIGKILL
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
        if not _can_be_run(name):
            raise DataParallelError("module {module!r} cannot be found: check the name, or install it.", module=name)
    elif not os.path.exists(name):  # not pathlib's, which raises for some names
        raise DataParallelError("script {script!r} does not exist: check the path (modules need -m).", script=name)
    elif os.path.isdir(name) and not os.path.exists(os.path.join(name, "__main__.py")):
        raise DataParallelError("script {script!r} is a folder without __main__.py: give a file in it.", script=name)


def _can_be_run(module: str) -> bool:
    """Whether ``python -m`` finds a module; nothing is imported for it."""
    if not all(part.isidentifier() for part in module.split(".")):
        return False
    package, *parts = module.split(".")
    found = PathFinder.find_spec(package, [os.getcwd()]) or importlib.util.find_spec(package)
    while found and (parts or found.submodule_search_locations):
        if "__path__" in _text_of(found.origin):
            return True  # it looks for its parts elsewhere, too
        part = parts.pop(0) if parts else "__main__"
        found = PathFinder.find_spec(f"{found.name}.{part}", found.submodule_search_locations or [])
    return found is not None


def _text_of(origin):
    try:
        return Path(origin).read_text(encoding="utf-8", errors="replace")
    except (OSError, TypeError):  # built in, or a package without an __init__.py
        return ""


def require_master(node: NodeInfo, timeout: float, bind_address: str | None = None) -> tuple[str, int]:
    """The address and port of the scheduler, checked on node 0.

    Args:
        node: Which of how many nodes this is, and where node 0 is.
        timeout: Seconds in which the name of node 0 may come up, if there are several nodes.
        bind_address: The IP address where node 0 listens, if that is not at its own address.

    Raises:
        DataParallelError: Several nodes without a meeting point, a node rank out of range, a port that is taken, or an
            address to listen at that node 0 does not have.
    """
    num_nodes, node_rank, port = node.num_nodes, node.node_rank, node.master_port
    if node_rank >= num_nodes:
        raise DataParallelError(
            "--node-rank {node_rank} must be below --nnodes {num_nodes}: nodes count from 0.",
            node_rank=node_rank,
            num_nodes=num_nodes,
        )
    if num_nodes > 1 and (node.master_addr is None or port is None):
        raise DataParallelError(
            "--nnodes {num_nodes} needs --master-addr and --master-port: give all nodes the same address of node 0 and "
            "a port that is free there.",
            num_nodes=num_nodes,
        )
    address = ports.LOOPBACK
    if node.master_addr is not None:
        patience = 0 if num_nodes == 1 else min(timeout, ports.LONGEST_WAIT_S)
        address = resolve(node.master_addr, patience, "--master-addr")
    if port is None:
        return address, ports.free_port()
    if num_nodes > 1 and port == ports.HIGHEST:
        raise DataParallelError("--master-port {port} leaves no port above it, where the launchers talk.", port=port)
    if node_rank == 0:
        needed = [port] if num_nodes == 1 else [port, ports.control_port(port)]
        for each in needed:
            ports.require_free(bind_address or address, each, port, is_own_option=bind_address is not None)
    return address, port


def require_secret(node: NodeInfo, address: str, secret_file: str | None, insecure: bool) -> str | None:
    """The secret by which the launchers of several nodes know each other; None if the job needs none.

    Args:
        node: Which of how many nodes this is, and who said so.
        address: The IP address of node 0.
        secret_file: A file that holds it, else ``MINDNLP_DP_SECRET`` does.
        insecure: Whether the user vouches for the network.

    Raises:
        DataParallelError: There is none, and neither the user nor the cluster's system vouches for the network.
    """
    if secret_file:
        return read_secret(secret_file)
    if secret := os.environ.get(SECRET):
        return require_length(secret, SECRET)
    if node.num_nodes > 1 and node.system == "none" and not (insecure or ipaddress.ip_address(address).is_loopback):
        raise DataParallelError(
            "--nnodes {num_nodes} without a secret trusts everybody who can reach port {control_port} of {address}: "
            "give all nodes the same {variable} or --secret-file (openssl rand -hex 16), or --insecure where only "
            "friends are on the network.",
            num_nodes=node.num_nodes,
            control_port=ports.control_port(node.master_port),
            address=address,
            variable=SECRET,
        )
    return None


def require_single_node(command: str) -> None:
    """Reject several nodes for a command that runs on one: each would train alone.

    Raises:
        DataParallelError: If the cluster's system started it on several nodes.
    """
    node = detect_node()
    if node.num_nodes > 1:
        raise DataParallelError(
            "{system} runs this on {num_nodes} nodes, but {command} uses a single one: ask for one node.",
            system=node.system,
            num_nodes=node.num_nodes,
            command=command,
        )
