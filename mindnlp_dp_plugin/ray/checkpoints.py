"""Checkpoints in Ray's storage: whole folders of ``output_dir``, and the way back to a node that may be another."""

import logging
import shutil
from pathlib import Path

import ray.train

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.language import Message, tr

logger = logging.getLogger(__name__)
OUTPUT_DIR, STEP = "output_dir", "step"  # in the metrics that are reported with a checkpoint
PURPOSE = Message("the checkpoint in Ray's storage")


def bring_back(home: Path) -> Path | None:
    """The newest whole checkpoint that each node has in ``home``, once the newest that was reported is there.

    All ranks must call it.

    Args:
        home: An ``output_dir``.

    Returns:
        Its folder; None if Ray keeps none of it.
    """
    group = current()
    found, failure = None, None
    if ray.train.get_context().get_local_rank() == 0:
        try:
            found = _whole_here(home)
        except Exception as error:  # the other ranks wait below
            failure = error
    of_nodes = [names for names in group.all_gather_object(found, PURPOSE) if names is not None]
    if failure:
        raise failure
    everywhere = set.intersection(*map(set, of_nodes))
    return max((home / name for name in everywhere), key=store.step_of, default=None)


def _whole_here(home):
    """The names of the newest one that was reported, and of newer ones that Ray was not told of in time."""
    reported = _bring(home)
    if reported is None:
        return []
    newer = [folder for folder in store.newest_first(home) if store.step_of(folder) > store.step_of(reported)]
    return [reported.name, *(folder.name for folder in newer if not store.problem_of_files(folder))]


def _bring(home):
    if ray.train.get_checkpoint() is None:
        return None
    for reported in reversed(ray.train.get_all_reported_checkpoints()):
        checkpoint, metrics = reported.checkpoint, reported.metrics
        if metrics.get(OUTPUT_DIR) != str(home):
            continue
        folder = home / f"checkpoint-{metrics[STEP]}"
        if not folder.is_dir() or store.problem_of_files(folder):
            _download(checkpoint, folder)
        if not (problem := store.problem_of_files(folder)):
            return folder
        logger.warning(tr("Ray's storage: passed over {checkpoint}: {problem}", checkpoint=checkpoint, problem=problem))
    return None


def _download(checkpoint, folder):
    """Under its name only when it is whole here."""
    arriving = store.workspace(folder.parent) / "arriving" / folder.name
    shutil.rmtree(arriving, ignore_errors=True)
    arriving.parent.mkdir(mode=store.PRIVATE, parents=True, exist_ok=True)
    checkpoint.to_directory(arriving)
    if folder.is_dir():
        store.remove(folder)
    arriving.rename(folder)
    arriving.parent.rmdir()
