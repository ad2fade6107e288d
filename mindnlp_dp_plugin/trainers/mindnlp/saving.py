"""A checkpoint by MindNLP's own ``_save_checkpoint``."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from mindnlp.engine.trainer import base

from mindnlp_dp_plugin.checkpoint import archive, store
from mindnlp_dp_plugin.checkpoint.writer import Writer
from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.optim.gathering import LazyTensor
from mindnlp_dp_plugin.optim.sharded import states_later
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.step import Step
from mindnlp_dp_plugin.trainers.mindnlp.deferred_files import large_files_deferred
from mindnlp_dp_plugin.trainers.mindnlp.resume.progress import Progress


class Checkpoints:
    """The checkpoints in ``output_dir``. All ranks must make the same calls.

    Args:
        trainer: The Trainer that trains.
        progress: Counts where it stands.
        step: Its step.
        is_async: Whether training goes on while one is written.
    """

    def __init__(self, trainer, progress: Progress, step: Step, is_async: bool):
        self._trainer, self._progress, self._step = trainer, progress, step
        self._is_async = is_async
        self._writer = Writer(large_files_deferred if is_async else None)
        self.wait, self.abandon = self._writer.wait, self._writer.abandon

    def write(self, save: Callable[[], None]) -> None:
        """Write one, and remove old ones. All ranks wait for it, unless it is written while training goes on.

        Args:
            save: MindNLP's own ``_save_checkpoint``.
        """
        self._step.check_replicas()
        self.wait()
        self._step.reducer.release()  # gradients of the last step, whose memory saving can use
        trainer, output_dir = self._trainer, self._trainer._get_output_dir()
        target = Path(output_dir, f"checkpoint-{trainer.state.global_step}")

        def save_to(written):
            patches = Patches()
            patches.replace(trainer, "_get_output_dir", lambda: str(written.parent))
            if not self._is_async:
                patches.replace(base, "save", _save)
            try:
                with nullcontext() if self._is_async else states_later(trainer.optimizer):
                    save()
            finally:
                patches.undo()
            if trainer.state.best_model_checkpoint == str(written):
                trainer.state.best_model_checkpoint = str(target)
            if trainer.args.should_save:
                trainer.state.save_to_json(str(written / store.STATE))

        def remove_old():
            trainer._rotate_checkpoints(use_mtime=False, output_dir=output_dir)

        record = self._progress.checkpoint_record().as_json()
        self._writer.write(target, trainer.args.should_save, save_to, record, remove_old)
        current().barrier()


def _save(state, file):
    def reduce(obj):
        return obj.gather().__reduce_ex__(archive.PROTOCOL) if type(obj) is LazyTensor else NotImplemented

    archive.write(state, file, reduce)
