"""A job on several machines: the line of an engine that starts its ranks, ready for this very case."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from mindnlp_dp_plugin.language import Message

PORT = "8118"  # msrun's own
NAMED = 16  # hosts in a line
# msrun starts scripts by itself; mpirun takes variables to other machines if it is told which.
LINES = {
    "msrun": "{variables}msrun --worker_num={ranks} --local_worker_num={nproc} --master_addr={master_addr} "
    "--master_port={master_port} --node_rank={node_rank} --join=True {program}",
    "srun": "{variables}srun --nodes={number} --ntasks-per-node={nproc} --kill-on-bad-exit=1 {command}",
    "mpirun": "mpirun -n {ranks} --host {hosts} --bind-to none {told}{command}",
    "torchrun": "{variables}torchrun --nnodes={least}{number} --nproc-per-node={nproc} --max-restarts={max_restarts} "
    "--rdzv-backend=c10d --rdzv-endpoint={master_addr}:{master_port} --no-python {command}",
}
WHERE = {
    "msrun": Message("on each node, with its own node rank"),
    "torchrun": Message("on each node"),
    "srun": Message("on one of them"),
    "mpirun": Message("on one of them"),
}


@dataclass(frozen=True)
class Nodes:
    """Several nodes that are to train together.

    Attributes:
        asked_by: Who asks for them: an option, or the system whose variables say so.
        number: How many.
        engine: What starts their ranks; one of ``LINES``.
        node_rank: The rank of a node, for a shell on it.
        master_addr: The address of node 0, likewise.
        master_port: A free port there, likewise.
        least: How many must be there, if torchrun may start ranks on fewer.
        max_restarts: How often it may start ranks again.
    """

    asked_by: str
    number: int
    engine: str = "msrun"
    node_rank: str = "0"
    master_addr: str = ""
    master_port: str = PORT
    least: int | None = None
    max_restarts: int = 0

    def line(self, nproc: int, program: str, settings: Mapping[str, str]) -> str:
        """What starts the ranks, for a shell.

        Args:
            nproc: Ranks on a node.
            program: Script and arguments, or ``python -m module``, for a shell.
            settings: Variables for the ranks.
        """
        assigned = [f"{name}={shlex.quote(value)} " for name, value in settings.items()]
        others = [f"NODE{number}" for number in range(1, min(self.number, NAMED))]
        hosts = [f"{host}:{nproc}" for host in (self.master_addr, *others)]
        known = {
            "ranks": nproc * self.number,
            "nproc": nproc,
            "hosts": ",".join([*hosts, "..."] if self.number > NAMED else hosts),
            "variables": "".join(assigned),
            "told": "".join(f"-x {each}" for each in assigned),
            "program": program,
            "command": program if program.startswith("python ") else f"python {program}",
            **{**vars(self), "least": f"{self.least}:" if self.least else ""},
        }
        return LINES[self.engine].format(**known)
