"""Whether this process is a rank. Its children inherit its environment, but not its place among the others.

What a launcher tells a rank in variables is therefore read by ``told`` alone: a child that trains something of its own
would otherwise show its status and name its checkpoints as the rank.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from mindnlp_dp_plugin.job.variables import JOINED, RANK_PROCESS, STATUS_DIR


def become_rank(has_joined: bool) -> None:
    """Call it in the process that is the rank; a program that this process executes in its place is the rank, too.

    Args:
        has_joined: Whether it has joined others.
    """
    os.environ[RANK_PROCESS] = str(os.getpid())
    os.environ.pop(JOINED, None)
    if has_joined:
        os.environ[JOINED] = str(os.getpid())


def is_child_of_rank(variable: str = RANK_PROCESS) -> bool:
    """Whether a rank has started this process, or is its ancestor; with ``JOINED`` a rank that has joined others."""
    return os.environ.get(variable, str(os.getpid())) != str(os.getpid())


def told(variable: str) -> str | None:
    """What the launcher tells this rank; None if it tells nothing, or this is a child of the rank."""
    return None if is_child_of_rank() else os.environ.get(variable)


def folder_told(variable: str) -> Path | None:
    """A folder that the launcher tells this rank."""
    name = told(variable)
    return Path(name) if name else None


def temporary_folder() -> TemporaryDirectory:
    """For a few small files: in the job's folder if there is one, which goes with the job whoever is killed."""
    folder = folder_told(STATUS_DIR)
    return TemporaryDirectory(dir=folder if folder and folder.is_dir() else None)
