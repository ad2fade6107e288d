"""From which checkpoint ``train()`` goes on by itself: after a restart by ``--max-restarts``, and with ``--resume``.

It is the newest whole one of this training (``training.py``). After a restart it must be one of this job, too: what an
older run left in the folder is left alone.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.record import Origin
from mindnlp_dp_plugin.checkpoint.training import Kinship, Training
from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_process import told
from mindnlp_dp_plugin.job.variables import JOB, RESTART
from mindnlp_dp_plugin.language import Message, tr

logger = logging.getLogger(__name__)
PURPOSE = Message("the checkpoint to go on from")


def own_checkpoint(
    output_dir: str,
    training: Training,
    wanted,
    is_resuming: bool,
    collective: Collective,
    digest_of_rows: Callable[[], str],
    judge: Callable[[Path], str | None] = store.problem_of_files,
    kept: Path | None = None,
) -> str | None:
    """The newest whole checkpoint from which this ``train()`` goes on by itself; None without one.

    All ranks must call it, in the same order.

    Args:
        output_dir: Its folder of checkpoints.
        training: What it trains.
        wanted: The script's ``resume_from_checkpoint``.
        is_resuming: Whether it is to go on, though nothing was started again.
        collective: The ranks that train together; rank 0 reads the folder.
        digest_of_rows: Reads rows of the data set, and returns a digest of them; called on all ranks, as a source may
            count how often it is read.
        judge: What is wrong with a checkpoint; None if nothing is.
        kept: The newest that is kept elsewhere and was brought to the folder: newer ones may be on one node alone.

    Raises:
        DataParallelError: On all ranks, if it cannot be known whether a checkpoint is this training's, and the script
            does not want it.
    """
    restart = int(told(RESTART) or 0)
    if not (restart or is_resuming):
        return None
    if collective.all_gather_object(any(store.newest_first(output_dir)), PURPOSE)[0]:
        training.trained["train_dataset"] = digest_of_rows()
    found = problem = None
    if collective.rank == 0:
        try:
            why = tr("Restart {number}", number=restart) if restart else "--resume"
            found = _choose(output_dir, training, wanted, why, is_resuming, judge, kept)
        except DataParallelError as error:
            problem = str(error)
    found, problem = collective.all_gather_object((found and str(found), problem), PURPOSE)[0]
    if problem:
        raise DataParallelError(problem)
    return found


def _choose(output_dir, training, wanted, why, is_resuming, judge, kept):
    job, found, doubtful, others = told(JOB), None, [], []
    for folder, content in store.published_in(output_dir):
        if kept and store.step_of(folder) > store.step_of(kept):
            continue
        origin = Origin.of(content or {})
        is_of_job = job is not None and origin.job == job
        if content and not (is_of_job or is_resuming):
            continue
        if problem := judge(folder):
            logger.warning(tr("{why}: passed over {problem}", why=why, problem=f"{folder}: {problem}"))
            continue
        kinship, reason = training.kinship(origin, is_of_job)
        if kinship is Kinship.OWN:
            found = folder
            break
        (doubtful if kinship is Kinship.UNKNOWN else others).append((folder, reason))
    if found is None and doubtful:
        found, reason = doubtful[0]
        if not wanted:
            raise DataParallelError(
                "{why}: {checkpoint} may be of another training: {reason}. To go on from it, say "
                "train(resume_from_checkpoint=True); to train anew, give this training an output_dir of its own.",
                why=why,
                checkpoint=str(found),
                reason=reason,
            )
        found = found if wanted is True else None
    if found:
        logger.warning(tr("{why}: training continues from {checkpoint}", why=why, checkpoint=found))
    elif others:
        known = dict(why=why, checkpoint=others[0][0], reason=others[0][1])
        logger.warning(
            tr("{why}: training continues from the start: {checkpoint} is of another training: {reason}", **known)
        )
    else:
        logger.warning(tr("{why}: training continues from the start", why=why))
    return found
