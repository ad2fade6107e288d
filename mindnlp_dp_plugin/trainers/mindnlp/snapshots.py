"""Hand a checkpoint to the launcher's keeping every so many optimizer steps, while training goes on."""

import logging
import os
import shutil
from collections.abc import Callable
from dataclasses import replace

import psutil
from mindnlp.peft import PeftModel

from mindnlp_dp_plugin.checkpoint import snapshots, store
from mindnlp_dp_plugin.checkpoint.background import BackgroundSave
from mindnlp_dp_plugin.collectives import Collective, require_same
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.hardware import SHARED_MEMORY
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.trainers.mindnlp.resume.progress import Progress
from mindnlp_dp_plugin.trainers.mindnlp.saving import Checkpoints, write_checkpoint

logger = logging.getLogger(__name__)
PURPOSE = Message("snapshots")

NUM_KEPT = 2  # the newest that is whole everywhere, and the next
STATES = 8  # bytes that AdamW keeps for an element; other optimizers keep less, or as much
MEGABYTE = 2**20


class Snapshots:
    """The first rank of each node has its snapshots written. All ranks must make the same calls.

    Args:
        trainer: The Trainer that trains.
        progress: Counts where it stands.
        collective: The ranks that train together.
        every: Optimizer steps from one to the next; 0 for none.
        checkpoints: Those on disk: one of them is as good.

    Raises:
        DataParallelError: On all ranks, if nobody would keep them, or a node has no room for them.
    """

    def __init__(self, trainer, progress: Progress, collective: Collective, every: int, checkpoints: Checkpoints):
        self._trainer, self._progress, self._collective = trainer, progress, collective
        self._every = every
        self._save = BackgroundSave()
        self._checkpoints = checkpoints
        self._last_step = trainer.state.global_step
        self._folder = None
        hint = Message("Start all ranks with the same MINDNLP_DP_SNAPSHOT_EVERY.")
        require_same("snapshot_every", every, collective, hint)
        if every:
            self._folder = snapshots.folder_of_ranks()
            self._require_room()

    def take_if_due(self, model) -> None:
        """After a step: take one, unless the last is still being written."""
        if not self._is_due:
            return
        answers = self._collective.all_gather_object((self._save.is_writing, self._problem()), PURPOSE)
        if problem := next((problem for _, problem in answers if problem), None):
            logger.warning(tr("No more snapshots are taken: {problem}", problem=problem))
            self._every = 0
        elif not any(is_writing for is_writing, _ in answers):
            session = self._trainer.data_parallel_session
            session.saves_to = self
            try:
                self._trainer._save_checkpoint(model)  # a subclass may add to it
            finally:
                session.saves_to = session.checkpoints
            self._last_step = self._trainer.state.global_step

    @property
    def writes(self) -> bool:
        """Whether this rank takes them: the first of each node does."""
        return self._trainer.args.local_process_index == 0

    def write(self, save: Callable[[], None]) -> None:
        """Take one; the older of the two before goes.

        Args:
            save: MindNLP's own ``_save_checkpoint``.
        """
        arguments = self._trainer.args
        record = replace(
            self._progress.checkpoint_record(),
            home=os.path.abspath(self._trainer._get_output_dir()),
            save_on_each_node=arguments.save_on_each_node,
        )
        patches = Patches()
        patches.replace(arguments, "save_on_each_node", True)  # the first rank of each node writes
        try:
            if arguments.should_save:
                for older in store.newest_first(self._folder)[1:]:
                    shutil.rmtree(older)
            write_checkpoint(self._trainer, save, str(self._folder), record, self._save)
        finally:
            patches.undo()

    def abandon(self) -> None:
        """Stop writing; what is whole stays for the launcher."""
        self._save.abandon()

    def discard(self) -> None:
        """Training has come to its end."""
        self.abandon()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _is_due(self):
        if not self._every:
            return False
        covered = max(self._last_step, self._checkpoints.last_step)
        return self._trainer.state.global_step // self._every > covered // self._every

    def _problem(self):
        if self._save.is_writing:
            return None
        try:
            self._save.wait()
        except Exception as error:
            return str(error)
        return None

    def _require_room(self):
        needed, free = NUM_KEPT * self._num_bytes(), _free()
        room = {"needed": needed / MEGABYTE, "free": free / MEGABYTE, "memory": SHARED_MEMORY, "every": self._every}
        problem = None
        try:
            self._check_room(free >= needed, room)
        except DataParallelError as error:
            problem = str(error)
        if problem := next(filter(None, self._collective.all_gather_object(problem, PURPOSE)), None):
            raise DataParallelError(problem)
        logger.warning(
            tr(
                "snapshot_every={every}: snapshots take {needed:.0f} MB of the {free:.0f} MB of {memory} on each node; "
                "while one is written, up to half as much again",
                **room,
            )
        )

    def _check_room(self, is_enough, room):
        if self._folder is None:
            raise DataParallelError(
                "snapshot_every={every} is for ranks that mindnlp-dp run has started, which keeps them: start so, or "
                "leave it out.",
                every=self._every,
            )
        if not self._folder.is_relative_to(SHARED_MEMORY) or not is_enough:
            raise DataParallelError(
                "snapshot_every={every} needs {needed:.0f} MB of memory on each node, for two copies of parameters and "
                "optimizer states; {memory} has {free:.0f} MB. Start the container with a larger --shm-size, or leave "
                "it out.",
                **room,
            )

    def _num_bytes(self):
        """About what a checkpoint takes."""
        model = self._trainer.model
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        held = trained if isinstance(model, PeftModel) else [*model.parameters(), *model.buffers()]
        return sum(tensor.nbytes for tensor in held) + sum(STATES * parameter.numel() for parameter in trained)


def _free():
    return min(shutil.disk_usage(SHARED_MEMORY).free, psutil.virtual_memory().available)
