"""From which checkpoint ``train()`` goes on by itself: after a restart by ``--max-restarts``, and with ``--resume``.

It is the newest whole one of this training (``training.py``). After a restart it must be one of this job, too: what an
older run left in the folder is left alone.
"""

import logging
from pathlib import Path

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.data import ShardedDataset
from mindnlp_dp_plugin.data.sample import RowSample
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_process import told
from mindnlp_dp_plugin.job.variables import JOB, RESTART
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.trainers.mindnlp.resume.training import Kinship, Training, digest_of_rows

logger = logging.getLogger(__name__)
PURPOSE = Message("the checkpoint to go on from")

READINGS = 2


def own_checkpoint(trainer, training: Training, wanted, collective: Collective, kept: Path | None = None) -> str | None:
    """The newest whole checkpoint from which this ``train()`` goes on by itself; None without one.

    All ranks must call it, in the same order.

    Args:
        trainer: The Trainer that trains.
        training: What it trains.
        wanted: The script's ``resume_from_checkpoint``.
        collective: The ranks that train together; rank 0 reads the folder.
        kept: The newest that is kept elsewhere and was brought to the folder: newer ones may be on one node alone.

    Raises:
        DataParallelError: On all ranks, if it cannot be known whether a checkpoint is this training's, and the script
            does not want it.
    """
    restart, is_resuming = int(told(RESTART) or 0), trainer.data_parallel_config.resume
    if not (restart or is_resuming):
        return None
    output_dir = trainer.args.output_dir
    if collective.all_gather_object(any(store.newest_first(output_dir)), PURPOSE)[0]:
        # All ranks read the rows, as a source may count how often it is read.
        dataset = trainer.get_train_dataset()
        may_be_read = not trainer.data_parallel_config.dispatch_batches
        reading = RowSample(dataset).read(READINGS) if may_be_read else ShardedDataset.reading
        training.trained["train_dataset"] = digest_of_rows(reading)
    found = problem = None
    if collective.rank == 0:
        try:
            why = tr("Restart {number}", number=restart) if restart else "--resume"
            found = _choose(output_dir, training, wanted, why, is_resuming, kept)
        except DataParallelError as error:
            problem = str(error)
    found, problem = collective.all_gather_object((found and str(found), problem), PURPOSE)[0]
    if problem:
        raise DataParallelError(problem)
    return found


def _choose(output_dir, training, wanted, why, is_resuming, kept):
    job, found, doubtful, others = told(JOB), None, [], []
    for folder, record in store.records_in(output_dir):
        if kept and store.step_of(folder) > store.step_of(kept):
            continue
        is_of_job = record is not None and job is not None and record.job == job
        if record and not (is_of_job or is_resuming):
            continue
        if problem := store.problem_of(folder):
            logger.warning(tr("{why}: passed over {problem}", why=why, problem=f"{folder}: {problem}"))
            continue
        kinship, reason = training.kinship(record, is_of_job)
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
