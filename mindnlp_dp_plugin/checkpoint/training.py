"""Which training this is, and the checkpoint from which it goes on by itself: after a restart, and with ``--resume``.

One ``output_dir`` belongs to one training, whose checkpoints bear its id. It goes on from the newest whole one; after a
restart of this job's only, as what an older run left in the folder is left alone. A script that trains several times
with one ``output_dir`` is refused when it is to go on: which of them a ``train()`` means cannot be told.
"""

import logging
import os
import uuid
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.record import Origin
from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_process import told
from mindnlp_dp_plugin.job.variables import GOES_ON, JOB, RESTART
from mindnlp_dp_plugin.language import Message, tr

logger = logging.getLogger(__name__)
PURPOSE = Message("the checkpoint to go on from")

_begun: dict[str, list["Training"]] = defaultdict(list)  # of this process, by output_dir


@dataclass
class Training:
    """A call of ``train()``, or several that go on from each other's checkpoints.

    Attributes:
        id: A name that no other training has.
        number: Which ``train()`` of its process with this ``output_dir`` it was begun by, from 1.
        output_dir: The folder of its checkpoints.
        before: The trainings that this process has begun with it before.
        names_older: Whether it goes on from a checkpoint of an earlier version, which bears no id: it gets this one's.
    """

    id: str
    number: int
    output_dir: str
    before: list["Training"]
    names_older: bool = False

    def as_recorded(self) -> dict[str, Any]:
        """What a checkpoint says of it."""
        return {"job": told(JOB), "train_call": self.number, "training": self.id}

    def adopt(self, record: Origin) -> None:
        """Be the training that goes on from a checkpoint."""
        if record.training is None:
            self.names_older = True
        else:
            self.id, self.number = record.training, record.train_call

    def take_over(self) -> None:
        """Note in the checkpoints of other trainings that the folder is this one's now. Where they are written.

        Raises:
            DataParallelError: If one cannot be written to: of another user, or on a disk that is full.
        """
        others = 0
        for folder, content in store.published_in(self.output_dir):
            if content is None:
                continue
            if self.names_older and content.get("training") is None:
                _note(folder, training=self.id)
                content["training"] = self.id
            followed_by = None if content.get("training") == self.id else self.number
            others += followed_by is not None
            if content.get("followed_by") != followed_by:
                _note(folder, followed_by=followed_by)
        if others and self.number > 1 and told(GOES_ON):
            logger.warning(
                tr(
                    "output_dir={folder!r}: this script trains several times in it, so a restart or --resume could not "
                    "go on. Give each training an output_dir of its own.",
                    folder=self.output_dir,
                )
            )

    def end(self) -> None:
        """Note in its checkpoints that it has come to its end. Where they are written."""
        for folder, content in store.published_in(self.output_dir):
            if content and content.get("training") == self.id:
                _note(folder, has_ended=True)


def begin_training(output_dir: str, collective: Collective) -> Training:
    """The training that a call of ``train()`` begins, the same on all ranks. All ranks must call it."""
    before = _begun[os.path.realpath(output_dir)]
    training = Training(uuid.uuid4().hex, len(before) + 1, output_dir, list(before))
    training.id = collective.all_gather_object(training.id, Message("which training this is"))[0]
    before.append(training)
    return training


def own_checkpoint(
    training: Training,
    wanted: str | os.PathLike | bool | None,
    is_resuming: bool,
    collective: Collective,
    judge: Callable[[Path], str | None] = store.problem_of_files,
    kept: Path | None = None,
) -> str | None:
    """The newest whole checkpoint from which this ``train()`` goes on by itself; None without one.

    All ranks must call it, in the same order.

    Args:
        training: The one that begins.
        wanted: The script's ``resume_from_checkpoint``; one that it names is taken where none can be chosen.
        is_resuming: Whether it is to go on, though nothing was started again.
        collective: The ranks that train together; rank 0 reads the folder.
        judge: What is wrong with a checkpoint; None if nothing is.
        kept: The newest that is kept elsewhere and was brought to the folder: newer ones may be on one node alone.

    Raises:
        DataParallelError: On all ranks, if several trainings share the folder.
    """
    restart = int(told(RESTART) or 0)
    if not (restart or is_resuming):
        return None
    found = problem = None
    if collective.rank == 0:
        why = tr("Restart {number}", number=restart) if restart else "--resume"
        try:
            found = _choose(training, wanted, why, is_resuming, judge, kept)
        except DataParallelError as error:
            problem = str(error)
    found, problem = collective.all_gather_object((found and str(found), problem), PURPOSE)[0]
    if problem and (not wanted or wanted is True):
        raise DataParallelError(problem)
    return found


def nothing_left(checkpoint: str | Path, step: int) -> str:
    """What the user must know where a training has ended that is to go on."""
    return tr(
        "No step is trained: the training of {checkpoint} has ended at step {step}. To go on, train for more epochs or "
        "steps.",
        checkpoint=str(checkpoint),
        step=step,
    )


def _note(folder, **changes):
    try:
        store.amend(folder, **changes)
    except OSError as error:
        raise DataParallelError(
            "{folder}: cannot be written ({error}), but it must record which training output_dir={output_dir!r} "
            "belongs to now. Give this training an output_dir of its own, or make the checkpoint writable.",
            folder=str(folder),
            error=str(error),
            output_dir=str(folder.parent),
        ) from error


def _choose(training, wanted, why, is_resuming, judge, kept):
    found, others = _of_this_training(training, is_resuming, kept)
    if others:
        raise DataParallelError(
            "{why}: {folder!r} holds checkpoints of several trainings, and nothing tells which of them this train() "
            "goes on with. Give each training an output_dir of its own, or name a checkpoint, here {checkpoint!r}: "
            "train(resume_from_checkpoint=...).",
            why=why,
            folder=training.output_dir,
            checkpoint=str(others[0]),
        )
    for folder in found:
        if problem := judge(folder):
            logger.warning(tr("{why}: passed over {problem}", why=why, problem=f"{folder}: {problem}"))
            continue
        logger.warning(tr("{why}: training continues from {checkpoint}", why=why, checkpoint=folder))
        return folder
    if not wanted or (wanted is True and not training.before):
        logger.warning(tr("{why}: training continues from the start", why=why))
    return None


def _of_this_training(training, is_resuming, kept):
    """The checkpoints that it may go on from, newest first; and those of others that share the folder with it."""
    job, done = told(JOB), {other.id for other in training.before}
    candidates, others, ids = [], [], set()
    for folder, content in store.published_in(training.output_dir):
        origin = Origin.of(content or {})
        is_of_job = job is not None and origin.job == job
        is_too_new = kept and store.step_of(folder) > store.step_of(kept)
        if is_too_new or (content and (origin.training in done or not (is_of_job or is_resuming))):
            continue
        is_shared = training.number > 1 or (origin.train_call or 1) > 1 or (origin.followed_by or 1) > 1
        if content and is_shared:
            others.append(folder)
        elif origin.followed_by is None:  # else a later run took the folder over, from the start
            candidates.append(folder)
            ids |= {origin.training} if content else set()
    return candidates, others or (candidates if len(ids) > 1 else [])
