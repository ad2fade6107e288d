"""A job on several machines: the line of an engine that starts its ranks, ready for this very case."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from mindnlp_dp_plugin.language import Message

PORT = "8118"  # msrun's own


@dataclass(frozen=True)
class Nodes:
    """Several nodes that are to train together; msrun starts the ranks, by the same line on each.

    Attributes:
        asked_by: Who asks for them: an option, or the system whose variables say so.
        number: How many.
        node_rank: The rank of a node, for a shell on it.
        master_addr: The address of node 0, likewise.
        master_port: A free port there, likewise.
        where: On which of them the line is given.
    """

    asked_by: str
    number: int
    node_rank: str
    master_addr: str
    master_port: str = PORT

    where = Message("on each node, with its own node rank")

    def line(self, nproc: int, program: str, settings: Mapping[str, str]) -> str:
        """What starts the ranks, for a shell.

        Args:
            nproc: Ranks on a node.
            program: Script and arguments, or ``python -m module``, for a shell.
            settings: Variables for the ranks.
        """
        return (
            f"{assignments(settings)}msrun --worker_num={nproc * self.number} --local_worker_num={nproc} "
            f"--master_addr={self.master_addr} --master_port={self.master_port} --node_rank={self.node_rank} "
            f"--join=True {program}"
        )


@dataclass(frozen=True)
class Allocation(Nodes):
    """Nodes of Slurm; srun starts the ranks."""

    node_rank: str = ""
    master_addr: str = ""

    where = Message("on one of them")

    def line(self, nproc: int, program: str, settings: Mapping[str, str]) -> str:
        """See ``Nodes``."""
        nodes = f"--nodes={self.number} --ntasks-per-node={nproc}"
        return f"{assignments(settings)}srun {nodes} --kill-on-bad-exit=1 {with_python(program)}"


@dataclass(frozen=True)
class Hosts(Nodes):
    """Nodes between which gradients are to travel over MPI; mpirun starts the ranks."""

    where = Message("on one of them")

    def line(self, nproc: int, program: str, settings: Mapping[str, str]) -> str:
        """See ``Nodes``."""
        others = (f"NODE{number}" for number in range(1, self.number))
        hosts = ",".join(f"{host}:{nproc}" for host in (self.master_addr, *others))
        told = "".join(f"-x {name}={shlex.quote(value)} " for name, value in settings.items())
        return f"mpirun -n {nproc * self.number} --host {hosts} --bind-to none {told}{with_python(program)}"


@dataclass(frozen=True)
class Elastic(Nodes):
    """Nodes whose ranks are to be started again, also with fewer nodes; torchrun does.

    Attributes:
        least: How many must be there.
        max_restarts: How often ranks may be started again.
    """

    least: int = 1
    max_restarts: int = 0

    where = Message("on each node")

    def line(self, nproc: int, program: str, settings: Mapping[str, str]) -> str:
        """See ``Nodes``."""
        nodes = f"{self.least}:{self.number}" if self.least < self.number else self.number
        return (
            f"{assignments(settings)}torchrun --nnodes={nodes} --nproc-per-node={nproc} "
            f"--max-restarts={self.max_restarts} --rdzv-backend=c10d "
            f"--rdzv-endpoint={self.master_addr}:{self.master_port} --no-python {with_python(program)}"
        )


def with_python(program: str) -> str:
    """The program as engines need it that start anything, where msrun starts scripts by itself."""
    return program if program.startswith("python ") else f"python {program}"


def assignments(settings: Mapping[str, str]) -> str:
    """Variables as they stand before a command of a shell."""
    return "".join(f"{name}={shlex.quote(value)} " for name, value in settings.items())
