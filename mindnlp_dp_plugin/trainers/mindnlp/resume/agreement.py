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
from mindnlp_dp_plugin.language import Message, tr

logger = logging.getLogger(__name__)
PURPOSE = Message("the checkpoint to go on from")

_num_train_calls = 0


def begin_train() -> None:
    """Count a call of ``train()``."""
    global _num_train_calls
    _num_train_calls += 1


def origin() -> dict[str, Any]:
    """The origin that a checkpoint records."""
    return {"job": os.environ.get(JOB), "train_call": _num_train_calls}


def own_checkpoint(home: str | Path, is_resuming: bool = False) -> str | None:
    """The newest whole checkpoint from which this ``train()`` goes on by itself; None without one.

    After a restart, one that this job wrote; if it is resuming, one of any job. All ranks must call it, in the same
    order.

    Args:
        home: The folder of checkpoints; rank 0 reads it.
        is_resuming: Whether ``--resume`` or ``MINDNLP_DP_RESUME`` was given.
    """
    is_restart = int(os.environ.get(RESTART, "0")) > 0
    if not (is_restart or is_resuming):
        return None
    group = current()
    folder, passed_over = None, []
    if group.rank == 0:
        folder, passed_over = store.newest_of(home, {"train_call": _num_train_calls} if is_resuming else origin())
    found, passed_over = group.all_gather_object((folder and str(folder), passed_over), PURPOSE)[0]
    if group.rank == 0:
        why = tr("Restart {number}", number=os.environ[RESTART]) if is_restart else "--resume"
        for problem in passed_over:
            logger.warning(tr("{why}: passed over {problem}", why=why, problem=problem))
        if found:
            logger.warning(tr("{why}: training continues from {checkpoint}", why=why, checkpoint=found))
        else:
            logger.warning(tr("{why}: training continues from the start", why=why))
    return found
