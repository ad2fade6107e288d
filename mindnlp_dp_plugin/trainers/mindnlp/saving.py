"""Write a checkpoint by MindNLP's own ``_save_checkpoint``: whole or not at all, at once or while training goes on."""

import os
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path

from mindnlp.engine.trainer import base

from mindnlp_dp_plugin.checkpoint import archive, store
from mindnlp_dp_plugin.checkpoint.background import BackgroundSave
from mindnlp_dp_plugin.checkpoint.record import Record
from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.job.rank_process import temporary_folder
from mindnlp_dp_plugin.optim.gathering import LazyTensor
from mindnlp_dp_plugin.optim.sharded import states_later
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.step import Step
from mindnlp_dp_plugin.trainers.mindnlp.deferred_files import large_files_deferred
from mindnlp_dp_plugin.trainers.mindnlp.resume.progress import Progress


def write_checkpoint(
    trainer,
    save: Callable[[], None],
    output_dir: str,
    record: Record,
    background: BackgroundSave | None = None,
    when_whole: Callable[[], None] = lambda: None,
) -> None:
    """Write a checkpoint of now to ``output_dir``. All ranks must call it.

    Args:
        trainer: The Trainer that trains.
        save: Its ``_save_checkpoint`` without the plugin.
        output_dir: The folder of checkpoints.
        record: What ``store.read_record`` is to return, if this rank writes.
        background: Writes the large files while training goes on; None to wait for them.
        when_whole: Is called on ranks that write, when the checkpoint has its name.
    """
    writes, state = trainer.args.should_save, trainer.state
    is_deferred = writes and background is not None
    with ExitStack() as stack:
        # What a rank writes beside the one that saves is dropped, and never gets into the folder that one works in.
        scratch = Path(stack.enter_context(store.atomic_save(output_dir) if writes else temporary_folder()))
        patches = Patches()
        patches.replace(trainer, "_get_output_dir", lambda: str(scratch))
        patches.replace(base, "save", _save)
        try:
            with (
                large_files_deferred() if is_deferred else nullcontext() as large_files,
                states_later(trainer.optimizer) if background is None else nullcontext(),
            ):
                save()
        finally:
            patches.undo()
        written = scratch / f"checkpoint-{state.global_step}"
        if state.best_model_checkpoint == str(written):
            state.best_model_checkpoint = os.path.join(output_dir, written.name)

        def publish():
            store.publish(written, output_dir, record.as_json())
            when_whole()

        if writes:
            state.save_to_json(str(written / store.STATE))
        if is_deferred:
            background.start(written.name, large_files, publish, stack.pop_all())
        elif writes:
            publish()


class Checkpoints:
    """The checkpoints in ``output_dir``. All ranks must make the same calls.

    Args:
        trainer: The Trainer that trains.
        progress: Counts where it stands.
        step: Its step.
        is_async: Whether training goes on while one is written.

    Attributes:
        last_step: The optimizer step of the last one.
    """

    def __init__(self, trainer, progress: Progress, step: Step, is_async: bool):
        self._trainer, self._progress, self._step = trainer, progress, step
        self._is_async = is_async
        self._background = BackgroundSave()
        self.last_step = trainer.state.global_step

    def write(self, save: Callable[[], None]) -> None:
        """Write one, and remove old ones. All ranks wait for it, unless it is written while training goes on.

        Args:
            save: MindNLP's own ``_save_checkpoint``.
        """
        self._step.check_replicas()
        self.wait()
        self._step.reducer.release()  # gradients of the last step, whose memory saving can use
        trainer, output_dir = self._trainer, self._trainer._get_output_dir()

        def remove_old():
            trainer._rotate_checkpoints(use_mtime=False, output_dir=output_dir)

        background = self._background if self._is_async else None
        write_checkpoint(trainer, save, output_dir, self._progress.checkpoint_record(), background, remove_old)
        self.last_step = trainer.state.global_step
        current().barrier()

    def wait(self) -> None:
        """Wait until the checkpoint that is being written is whole."""
        self._background.wait()

    def abandon(self) -> None:
        """Stop writing: training has failed, and the checkpoint before is whole."""
        self._background.abandon()


def _save(state, file):
    def reduce(obj):
        return obj.gather().__reduce_ex__(archive.PROTOCOL) if type(obj) is LazyTensor else NotImplemented

    archive.write(state, file, reduce)
