"""After a restart by ``mindnlp-dp run --max-restarts``, ``train()`` resumes where this job was.

Each checkpoint records which job wrote it, in which of the script's calls of ``train()``. So a restart never resumes
from what an older run left in the folder, nor from a later stage of the same script.
"""

import logging
import os
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.job.variables import JOB, RESTART

logger = logging.getLogger(__name__)

_num_train_calls = 0


def begin_train() -> None:
    """Count a call of ``train()``."""
    global _num_train_calls
    _num_train_calls += 1


def origin() -> dict[str, Any]:
    """The origin that a checkpoint records."""
    return {"job": os.environ.get(JOB), "train_call": _num_train_calls}


def own_checkpoint(home: str | Path) -> str | None:
    """The newest complete checkpoint that this ``train()`` wrote before a restart; None without one.

    All ranks must call it, in the same order.

    Args:
        home: The folder of checkpoints; rank 0 reads it.
    """
    if int(os.environ.get(RESTART, "0")) == 0:
        return None
    group = current()
    newest = store.newest(home, origin()) if group.rank == 0 else None
    found = group.all_gather_object(newest and str(newest))[0]
    if group.rank == 0:
        logger.warning("Restart %s: training continues from %s", os.environ[RESTART], found or "the start")
    return found
