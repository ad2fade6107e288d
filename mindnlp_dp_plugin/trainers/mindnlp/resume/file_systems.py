"""Checkpoints on shared or separate file systems of nodes: who writes, and what all resume from."""

import hashlib
import json
import logging
import os
import socket
import uuid
from contextlib import suppress
from pathlib import Path

from mindnlp.engine.utils import get_last_checkpoint

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr

logger = logging.getLogger(__name__)
CHECKPOINT = Message("the checkpoint to resume from")
FOLDERS = Message("folders of checkpoints")


def require_own_folders(home: str, writes: bool, collective: Collective) -> None:
    """Raise if two ranks would write checkpoints to the same folder. All ranks must call it.

    Args:
        home: This rank's ``output_dir``.
        writes: Whether this rank writes there.
        collective: The ranks that train together.

    Raises:
        DataParallelError: If two ranks would.
    """
    mark = store.workspace(home) / uuid.uuid4().hex
    if writes:
        mark.mkdir(mode=store.PRIVATE, parents=True)
    marks = collective.all_gather_object(mark.name, FOLDERS)
    seen = [name for name in marks if writes and (store.workspace(home) / name).exists()]
    num_seen = collective.all_gather_object(len(seen), FOLDERS)
    if writes:
        with suppress(FileNotFoundError):  # another node has closed the workspace that they share
            mark.rmdir()
        store.close_workspace(home)
    if max(num_seen) > 1:
        raise DataParallelError(
            "save_on_each_node=True, but several nodes would write to the same output_dir, {home!r}: it is for nodes "
            "with separate disks. Leave it out; rank 0 then writes for all.",
            home=home,
        )


def open_workspaces(home: str, writes: bool, collective: Collective) -> None:
    """Claim the folders of checkpoints, and put in order what a killed job left. All ranks must call it.

    Args:
        home: This rank's ``output_dir``.
        writes: Whether this rank writes there.
        collective: The ranks that train together.

    Raises:
        DataParallelError: On all ranks, if another job of this node writes checkpoints to one of them.
    """
    problem = stranger = None
    if writes:
        try:
            stranger = store.open_workspace(home)
        except DataParallelError as error:
            problem = str(error)
    if stranger:
        logger.warning(
            tr(
                "output_dir={folder!r} is claimed by {stranger}. If that job still runs, end it, or give each an "
                "output_dir of its own: two jobs in one folder remove each other's checkpoints.",
                folder=home,
                stranger=stranger,
            )
        )
    if problem := next(filter(None, collective.all_gather_object(problem, FOLDERS)), None):
        raise DataParallelError(problem)


def common_checkpoint(wanted: str | os.PathLike | bool | None, home: str, collective: Collective) -> str | bool | None:
    """The checkpoint to resume from, the same on all ranks. All ranks must call it.

    Args:
        wanted: A folder; True for the newest in ``home``; None or False to train from the start.
        home: This rank's ``output_dir``; each node may have its own disk.
        collective: The ranks that train together.

    Returns:
        The folder; if no rank has one, ``wanted``, and MindNLP reports that there is none.

    Raises:
        DataParallelError: The checkpoint is damaged, or not all ranks have the same.
    """
    folder = local_checkpoint(wanted, home)
    everyone = collective.all_gather_object((*_describe(folder), socket.gethostname()), CHECKPOINT)
    identity, first, first_host = everyone[0]
    for rank, (other, theirs, host) in enumerate(everyone):
        if other != identity:
            raise DataParallelError(
                "Cannot resume: rank 0 on {first_host} has {first}, rank {rank} on {host} has {theirs}. All nodes need "
                "the same checkpoint: copy it to each, write to a folder that all share, or train with "
                "save_on_each_node=True.",
                first_host=first_host,
                first=first,
                rank=rank,
                host=host,
                theirs=theirs,
            )
    if folder:
        store.read_record(folder)
    return folder or wanted


def local_checkpoint(wanted: str | os.PathLike | bool | None, home: str) -> str | None:
    """The folder that ``resume_from_checkpoint`` means on this node, as ``common_checkpoint`` takes it."""
    if wanted is True:
        return get_last_checkpoint(home) if Path(home).is_dir() else None
    return os.fspath(wanted) if wanted else None


def _describe(folder):
    """What is the same for copies of a checkpoint on other nodes, and for no other checkpoint; and how it is shown."""
    if folder is None:
        return None, tr("no checkpoint")
    name = Path(folder).name
    if problem := store.problem_of(Path(folder)):
        return (name, None), f"{name} ({problem})"
    record = store.read_record(folder)
    content = {what: record[what] for what in record if what not in ("files", "digests", "job")}  # each node's own
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
    return (name, digest), tr("{name} (digest {digest})", name=name, digest=digest)
