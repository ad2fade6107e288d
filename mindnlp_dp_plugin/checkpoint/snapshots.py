"""Snapshots: checkpoints in the memory of a node, in its launcher's keeping while the ranks live.

Two at most are there: the newest that is whole on all nodes, and the one that is being written or was written since.
"""

import os
import shutil
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.job.variables import STATUS_DIR

FOLDER = "snapshots"
HOME, IS_ON_EACH_NODE = "home", "save_on_each_node"


def folder_of_ranks() -> Path | None:
    """Where this node's snapshots are; None unless ``mindnlp-dp run`` keeps them."""
    return Path(os.environ[STATUS_DIR], FOLDER) if STATUS_DIR in os.environ else None


def origin(home: str | Path, on_each_node: bool) -> dict[str, Any]:
    """What the record of a snapshot says beside that of a checkpoint.

    Args:
        home: The folder of checkpoints to which it belongs.
        on_each_node: Whether each node has checkpoints of its own.
    """
    return {HOME: os.path.abspath(home), IS_ON_EACH_NODE: on_each_node}


def make_checkpoint(kept: Path, leads: bool) -> Path | None:
    """Write a node's newest whole snapshot to disk, unless training had a checkpoint as new.

    Args:
        kept: The folder that the launcher keeps for its ranks, which have ended.
        leads: Whether this node's is the one to take where nodes share their checkpoints.

    Returns:
        The checkpoint; None if there is none to make.
    """
    whole = store.whole_in(kept / FOLDER)  # each is read when it is asked for
    if (snapshot := next(whole, None)) is None:
        return None
    record = store.read_record(snapshot)
    if record[IS_ON_EACH_NODE] and (older := next(whole, None)):
        # On separate disks all nodes need the same: this one may be the only one to have the newer.
        snapshot, record = older, store.read_record(older)
    home, on_each_node = Path(record.pop(HOME)), record.pop(IS_ON_EACH_NODE)
    newest = store.newest(home, {name: record[name] for name in ("job", "train_call")})
    if not (leads or on_each_node) or (newest and store.step_of(newest) >= store.step_of(snapshot)):
        return None
    with store.atomic_save(home) as scratch:
        written = shutil.copytree(snapshot, scratch / snapshot.name, ignore=shutil.ignore_patterns(store.RECORD))
        store.publish(written, home, record)
    return home / snapshot.name
