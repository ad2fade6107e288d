"""After ``mindnlp-dp run --max-restarts`` has started the ranks again, ``train()`` goes on where this job was.

Each checkpoint says which job wrote it, in which of the script's calls of ``train()``. So what an older run left in the
same folder is never taken up by surprise, nor what a later stage of the same script wrote.
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
    """What a checkpoint says of where it comes from."""
    return {"job": os.environ.get(JOB), "train_call": _num_train_calls}


def own_checkpoint(home: str | Path) -> str | None:
    """The newest whole checkpoint that this ``train()`` wrote before the job was started again, if it was.

    To be called on all ranks, in the same order.

    Args:
        home: The folder of checkpoints; rank 0 looks.
    """
    if int(os.environ.get(RESTART, "0")) == 0:
        return None
    group = current()
    newest = store.newest(home, origin()) if group.rank == 0 else None
    found = group.all_gather_object(newest and str(newest))[0]
    if group.rank == 0:
        logger.warning("Restart %s: training goes on from %s", os.environ[RESTART], found or "the start")
    return found
