"""Who this process is among the ranks, read from what its launcher left in the environment.

The most explicit voice wins:

1. ``MS_ROLE``: msrun, or ``mindnlp-dp run`` with HCCL or MCCL. Set for each process by the launcher nearest to it, so
   it also wins over MPI variables that a batch system or an outer mpirun left in the shell.
2. ``OMPI_COMM_WORLD_SIZE`` (Open MPI), then ``PMI_SIZE`` (MPICH): mpirun. Wins over a rank table, which machines with
   Ascend cards often export for every shell.
3. ``RANK_SIZE`` above 1: a rank table.
4. None of them: alone.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError

LOCAL_WORLD_SIZE = "MINDNLP_DP_LOCAL_WORLD_SIZE"
VARIABLES = (
    "MS_ROLE MS_WORKER_NUM MS_SERVER_NUM MS_SCHED_HOST MS_SCHED_PORT MS_NODE_ID RANK_ID RANK_SIZE RANK_TABLE_FILE "
    "OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_LOCAL_RANK OMPI_COMM_WORLD_LOCAL_SIZE "
    f"PMI_RANK PMI_SIZE MPI_LOCALRANKID MPI_LOCALNRANKS {LOCAL_WORLD_SIZE}"
).split()


@dataclass(frozen=True)
class Identity:
    """One process of a job.

    Attributes:
        rank: Its number over all hosts, from 0.
        world_size: How many ranks the job has.
        local_rank: Its number on this host, from 0; on Ascend the device it uses.
        local_world_size: How many ranks run on this host. None where plain msrun does not say (several hosts).
        launcher: ``"none"``, ``"msrun"`` (also ``mindnlp-dp run`` with HCCL or MCCL), ``"mpirun"`` or ``"ranktable"``.
        is_scheduler: Whether this is msrun's scheduler, which runs the user's script too but is no rank.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_world_size: int | None = 1
    launcher: str = "none"
    is_scheduler: bool = False


def detect(environ: Mapping[str, str] | None = None) -> Identity:
    """Finds out which rank this process is. See the module's first lines for who wins when several launchers speak.

    Args:
        environ: The variables to read, ``os.environ`` if None.

    Raises:
        DataParallelError: A variable is missing or holds no usable value; the message names it and the way out.
    """
    environ = os.environ if environ is None else environ
    if "MS_ROLE" in environ:
        return _from_msrun(environ)
    if "OMPI_COMM_WORLD_SIZE" in environ:
        names = [f"OMPI_COMM_WORLD_{what}" for what in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")]
        return _from_mpirun(environ, *names)
    if "PMI_SIZE" in environ:
        return _from_mpirun(environ, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    if "RANK_SIZE" in environ and _count(environ, "RANK_SIZE", RANK_TABLE_WAY_OUT) > 1:
        return _from_rank_table(environ)
    return Identity()


MSRUN_WAY_OUT = "start with msrun or mindnlp-dp run, which set it, or unset MS_ROLE to train alone"
MPIRUN_WAY_OUT = "start with mpirun or mindnlp-dp run, which set it"
RANK_TABLE_WAY_OUT = "start each rank with RANK_TABLE_FILE, RANK_ID and RANK_SIZE, or unset RANK_SIZE to train alone"
NODE_RANK_WAY_OUT = "pass --node_rank=<number of this host> to msrun when it starts on several hosts"


def _from_msrun(environ) -> Identity:
    role = environ["MS_ROLE"]
    if role not in ("MS_WORKER", "MS_SCHED"):
        raise DataParallelError(f"MS_ROLE={role!r} is not known: it must be MS_WORKER or MS_SCHED; {MSRUN_WAY_OUT}.")
    world_size = _count(environ, "MS_WORKER_NUM", MSRUN_WAY_OUT)
    if role == "MS_SCHED":
        return Identity(world_size=world_size, local_world_size=None, launcher="msrun", is_scheduler=True)
    # Not RANK_ID: without --node_rank, msrun's workers inherit the scheduler's RANK_ID=0.
    rank = _number_below(environ, "MS_NODE_ID", world_size, "MS_WORKER_NUM", NODE_RANK_WAY_OUT)
    return Identity(
        rank=rank,
        world_size=world_size,
        local_rank=_number(environ, "DEVICE_ID", MSRUN_WAY_OUT) if "DEVICE_ID" in environ else rank,
        local_world_size=_local_world_size_under_msrun(environ, world_size),
        launcher="msrun",
    )


def _local_world_size_under_msrun(environ, world_size: int) -> int | None:
    if LOCAL_WORLD_SIZE in environ:
        way_out = "start with mindnlp-dp run, which sets it"
        return _count_up_to(environ, LOCAL_WORLD_SIZE, world_size, "MS_WORKER_NUM", way_out)
    on_one_host = environ.get("MS_SCHED_HOST", "").startswith("127.")
    return world_size if on_one_host else None


def _from_mpirun(environ, rank: str, size: str, local_rank: str, local_size: str) -> Identity:
    world_size = _count(environ, size, MPIRUN_WAY_OUT)
    local_world_size = _count_up_to(environ, local_size, world_size, size, MPIRUN_WAY_OUT)
    return Identity(
        rank=_number_below(environ, rank, world_size, size, MPIRUN_WAY_OUT),
        world_size=world_size,
        local_rank=_number_below(environ, local_rank, local_world_size, local_size, MPIRUN_WAY_OUT),
        local_world_size=local_world_size,
        launcher="mpirun",
    )


def _from_rank_table(environ) -> Identity:
    world_size = _count(environ, "RANK_SIZE", RANK_TABLE_WAY_OUT)
    rank = _number_below(environ, "RANK_ID", world_size, "RANK_SIZE", RANK_TABLE_WAY_OUT)
    if "RANK_TABLE_FILE" not in environ:
        raise DataParallelError(
            f"RANK_SIZE={world_size} asks for several ranks but RANK_TABLE_FILE is not set: import mindnlp_dp_plugin "
            "before mindnlp (whose import removes it), start with mindnlp-dp run, or unset RANK_SIZE to train alone."
        )
    hosts = _ranks_per_host(environ["RANK_TABLE_FILE"])
    num_listed = sum(len(ranks) for ranks in hosts)
    mine = next((ranks for ranks in hosts if rank in ranks), None)
    if num_listed != world_size or mine is None:
        raise DataParallelError(
            f"RANK_TABLE_FILE={environ['RANK_TABLE_FILE']!r} lists {num_listed} ranks, which does not fit "
            f"RANK_ID={rank} and RANK_SIZE={world_size}: export the RANK_SIZE of the table, or make a new table."
        )
    if sorted(chain.from_iterable(hosts)) != list(range(world_size)):
        raise DataParallelError(
            f"RANK_TABLE_FILE={environ['RANK_TABLE_FILE']!r} does not list each of the ranks 0 to {world_size - 1} "
            "once: make a new table."
        )
    return Identity(rank, world_size, mine.index(rank), len(mine), "ranktable")


def _ranks_per_host(path: str) -> list[list[int]]:
    try:
        servers = json.loads(Path(path).read_text(encoding="utf-8"))["server_list"]
        return [sorted(int(str(device["rank_id"])) for device in server["device"]) for server in servers]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataParallelError(
            f"RANK_TABLE_FILE={path!r} cannot be read as a rank table ({type(error).__name__}: {error}): "
            "point it to a table made by hccl_tools.py, or start with mindnlp-dp run, which needs none."
        ) from None


def _number(environ, name: str, way_out: str) -> int:
    if name not in environ:
        raise DataParallelError(f"{name} is not set: {way_out}.")
    try:
        value = int(environ[name])
    except ValueError:
        value = -1
    if value < 0:
        raise DataParallelError(f"{name}={environ[name]!r} is not a whole number from 0: {way_out}.")
    return value


def _count(environ, name: str, way_out: str) -> int:
    value = _number(environ, name, way_out)
    if value == 0:
        raise DataParallelError(f"{name}=0 leaves no rank: {way_out}.")
    return value


def _count_up_to(environ, name: str, limit: int, limit_name: str, way_out: str) -> int:
    value = _count(environ, name, way_out)
    if value > limit:
        raise DataParallelError(f"{name}={value} must be at most {limit_name}={limit}: {way_out}.")
    return value


def _number_below(environ, name: str, limit: int, limit_name: str, way_out: str) -> int:
    value = _number(environ, name, way_out)
    if value >= limit:
        raise DataParallelError(f"{name}={value} must be below {limit_name}={limit}: {way_out}.")
    return value
