"""Snapshots: checkpoints in the memory of a node, in its launcher's keeping while the ranks live.

Two at most are there: the newest that is whole on all nodes, and the one that is being written or was written since.
"""

import shutil
from dataclasses import replace
from pathlib import Path

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.job.rank_process import folder_told
from mindnlp_dp_plugin.job.variables import STATUS_DIR

FOLDER = "snapshots"


def folder_of_ranks() -> Path | None:
    """Where this node's snapshots are; None unless ``mindnlp-dp run`` keeps them."""
    folder = folder_told(STATUS_DIR)
    return folder / FOLDER if folder else None


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
    if record.save_on_each_node and (older := next(whole, None)):
        # On separate disks all nodes need the same: this one may be the only one to have the newer.
        snapshot, record = older, store.read_record(older)
    home, on_each_node = Path(record.home), record.save_on_each_node
    newest, _ = store.newest(home, record.is_of_same_training)
    if not (leads or on_each_node) or (newest and store.step_of(newest) >= store.step_of(snapshot)):
        return None
    with store.atomic_save(home) as scratch:
        written = shutil.copytree(snapshot, scratch / snapshot.name, ignore=shutil.ignore_patterns(store.RECORD))
        store.publish(written, home, replace(record, home=None, save_on_each_node=None).as_json())
    return home / snapshot.name
