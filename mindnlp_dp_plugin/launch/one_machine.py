"""``mindnlp-dp run`` starts the ranks of one machine. Who asks for several gets the line that starts those."""

import re
import shlex
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import detect_nodes
from mindnlp_dp_plugin.job.several_nodes import PORT, WHERE, Nodes
from mindnlp_dp_plugin.job.variables import of_setting
from mindnlp_dp_plugin.launch.options import RunOptions

FLAGS_GONE = ("standalone", "insecure")
VALUES_GONE = ("nnodes", "node_rank", "master_addr", "secret_file", "bind_address", "num_processes", "worker_num")


def require_one_machine(
    gone: dict[str, Any], nproc: int | None, backend: str, port: int | None, asked: RunOptions, command: list[str]
) -> None:
    """Refuse what several machines are asked for with.

    Args:
        gone: Values of options that ``run`` has no more, by ``FLAGS_GONE`` and ``VALUES_GONE``.
        nproc: Ranks on a machine; None if it is not said.
        backend: The engine that was asked for.
        port: The port that was asked for; None for none.
        asked: The other options.
        command: ``[-m] script args...``

    Raises:
        DataParallelError: With the line that starts ranks on several, or what to give instead on one.
    """
    given = {name: value for name, value in gone.items() if value not in (None, False)}
    nodes = _asked_for(given, backend, port, asked.max_restarts) or (None if given else detect_nodes())
    if nodes:
        in_all = given.get("num_processes", given.get("worker_num", nodes.number))
        raise _how_to_start(nodes, nproc or in_all // nodes.number or 1, asked, command)
    for name in given:
        raise DataParallelError(
            "{option} was removed: mindnlp-dp run starts the ranks of one machine, as many as --nproc says. Leave it "
            "out.",
            option=f"--{name.replace('_', '-')}",
        )


def require_single_node(command: str) -> None:
    """Reject several nodes for a command that runs on one: each would do the same.

    Raises:
        DataParallelError: If a system started it on several nodes.
    """
    if nodes := detect_nodes():
        raise DataParallelError(
            "{asked_by}: {command} uses a single node. Ask for one.", asked_by=nodes.asked_by, command=command
        )


def _asked_for(given, backend, port, max_restarts):
    """The nodes that options of earlier versions name; None if these are not several."""
    found = re.fullmatch(r"(\d{1,3})(?::(\d{1,3}))?", given.get("nnodes", ""))
    least, most = (int(found[1]), int(found[2] or found[1])) if found else (1, 1)
    if most < 2:
        return None
    address = shlex.quote(given.get("master_addr") or "NODE0")
    is_elastic = least < most or max_restarts
    return Nodes(
        f"--nnodes {given['nnodes']}",
        most,
        "torchrun" if is_elastic else "mpirun" if backend == "mpi" else "msrun",
        given.get("node_rank") or "0",
        address,
        port or PORT,
        least if least < most else None,
        max_restarts,
    )


def _how_to_start(nodes, nproc, asked, command):
    settings = asked.as_settings()
    if nodes.engine == "torchrun":
        settings[of_setting("resume")] = "1"
    program = shlex.join(["python", *command] if command[0] == "-m" else command)
    line, where = nodes.line(nproc, program, settings), WHERE[nodes.engine]
    return DataParallelError(
        "{asked_by}: mindnlp-dp run starts the ranks of one machine. Put `import mindnlp_dp_plugin` first in "
        "{script}, and run, {where}: {line}",
        asked_by=nodes.asked_by,
        script=command[1] if command[0] == "-m" else command[0],
        where=where,
        line=line,
    )
