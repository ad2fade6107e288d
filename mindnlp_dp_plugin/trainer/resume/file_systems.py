"""Checkpoints of hosts that share a file system, or have one each: who writes, and what all resume from."""

import hashlib
import json
import os
import socket
import uuid
from pathlib import Path

from mindnlp.engine.utils import get_last_checkpoint

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.errors import DataParallelError


def require_own_folders(home: str, writes: bool, collective: Collective) -> None:
    """Make sure that no two ranks are about to write checkpoints to one folder. To be called on all ranks.

    Args:
        home: This rank's ``output_dir``.
        writes: Whether this rank writes there.
        collective: The ranks that train together.

    Raises:
        DataParallelError: They are.
    """
    mark = Path(home, store.INCOMPLETE + uuid.uuid4().hex)
    if writes:
        mark.mkdir(mode=store.PRIVATE, parents=True)
    marks = collective.all_gather_object(mark.name)
    seen = [name for name in marks if writes and Path(home, name).exists()]
    num_seen = collective.all_gather_object(len(seen))
    if writes:
        mark.rmdir()
    if max(num_seen) > 1:
        raise DataParallelError(
            f"save_on_each_node=True, but several hosts would write to the same output_dir, {home!r}: it is for hosts "
            "that each have a disk of their own. Leave it out; rank 0 then writes for all."
        )


def common_checkpoint(wanted: str | os.PathLike | bool | None, home: str, collective: Collective) -> str | bool | None:
    """What to resume from on this rank: the same checkpoint on all. To be called on all ranks.

    Args:
        wanted: A folder; True for the newest in ``home``; None or False to train from the start.
        home: This rank's ``output_dir``; other hosts may have it on a disk of their own.
        collective: The ranks that train together.

    Returns:
        The folder; if no rank has one, ``wanted``: MindNLP says that there is none to resume from.

    Raises:
        DataParallelError: The checkpoint is damaged, or not all ranks have the same.
    """
    if wanted is True:
        folder = get_last_checkpoint(home) if Path(home).is_dir() else None
    else:
        folder = os.fspath(wanted) if wanted else None
    everyone = collective.all_gather_object((_describe(folder), socket.gethostname()))
    first, first_host = everyone[0]
    for rank, (theirs, host) in enumerate(everyone):
        if theirs != first:
            raise DataParallelError(
                f"Cannot resume: rank 0 on {first_host} has {first}, rank {rank} on {host} has {theirs}. All hosts "
                "need the same checkpoint: copy it to each, write to a folder that all share, or train with "
                "save_on_each_node=True."
            )
    if folder:
        store.read_record(folder)
    return folder or wanted


def _describe(folder):
    """A checkpoint in words that are the same for a copy of it on another host, and for no other."""
    if folder is None:
        return "no checkpoint"
    name = Path(folder).name
    if problem := store.problem_of(Path(folder)):
        return f"{name} ({problem})"
    record = store.read_record(folder)
    content = {what: record[what] for what in record if what not in ("files", "job")}  # each host's own
    return f"{name} (digest {hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]})"
