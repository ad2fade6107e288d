"""What the plugin adds to MindNLP's Trainer in one process."""

from collections.abc import Callable
from pathlib import Path

from mindnlp.core import nn

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.agreement import local_checkpoint
from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.ddp.replicas import require_values
from mindnlp_dp_plugin.optim.parameters import parameters_outside
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.step.cut_off import CutOff
from mindnlp_dp_plugin.step.packed_rows import require_packed_rows_read
from mindnlp_dp_plugin.step.pynative import require_pynative
from mindnlp_dp_plugin.trainers.mindnlp.grouping import shard_by_length
from mindnlp_dp_plugin.trainers.mindnlp.mixed_precision import dtype_of_training
from mindnlp_dp_plugin.trainers.observe.throughput import Meter
from mindnlp_dp_plugin.trainers.observe.tracker import trackers_of


def hook_lone_trainer(
    trainer_base, config: DataParallelConfig, patches: Patches, hook_ranks_trainer: Callable[[], None]
) -> None:
    """Let MindNLP's Trainer group by length and use mixed precision, if its arguments say so; check what it trains.

    Mixed precision needs what the Trainer of ranks has, averaged gradients and checkpoints with a record; and so does
    going on in the middle of an epoch where ranks have stopped. So the first Trainer that asks for either is hooked as
    the only rank of a job.

    Args:
        trainer_base: The module ``mindnlp.engine.trainer.base``.
        config: The settings.
        patches: Restores the Trainer.
        hook_ranks_trainer: Hooks the Trainer as on ranks.
    """
    alone = Patches()
    patches.on_undo(alone.undo)

    def as_rank(name):
        def method(stock, self, *args, **kwargs):
            resumes = name == "train" and _resumes_where_ranks_stopped(self, *args, **kwargs)
            if dtype_of_training(self.args) is None and not resumes:
                return stock(self, *args, **kwargs)
            alone.undo()
            hook_ranks_trainer()
            return getattr(self, name)(*args, **kwargs)

        method.__name__ = name
        return method

    alone.replace(trainer_base.Trainer, "data_parallel_config", config)
    for stand_in in (_inner_training_loop, as_rank("train"), as_rank("evaluation_loop")):
        alone.stand_in(trainer_base.Trainer, stand_in)


def _resumes_where_ranks_stopped(trainer, resume_from_checkpoint=None, *args, **kwargs):
    folder = local_checkpoint(resume_from_checkpoint, trainer.args.output_dir)
    return folder is not None and Path(folder, store.RECORD).exists()


def _inner_training_loop(stock, self, *args, **kwargs):
    """Nothing but the order of the rows changes, and that only if it was asked for."""
    require_pynative()
    require_packed_rows_read(self.model, self.train_dataset)

    def _load_optimizer_and_scheduler(stock, checkpoint):
        """The last call before the loop."""
        stock(checkpoint)
        require_values([*self.model.named_parameters(), *parameters_outside(self.model, self.optimizer).items()])
        steps = WatchedSteps(patches)
        CutOff(self, steps, patches)
        steps.watch(self.optimizer)
        _measure_for_trackers(self, patches)

    with Patches() as patches:
        patches.stand_in(self, _load_optimizer_and_scheduler)
        if self.args.group_by_length:
            dataset = shard_by_length(self.get_train_dataset(), self.args, current())
            patches.replace(self, "get_train_dataset", lambda: dataset)
        return stock(self, *args, **kwargs)


def _measure_for_trackers(trainer, patches):
    """Only if there is one: it is told what each batch holds."""
    trackers = trackers_of(trainer)
    if not trackers:
        return
    meter = Meter(trainer.model, current(), trainer.data_parallel_config)
    meter.listen_to_clipping(nn.utils, patches)
    for tracker in trackers:
        tracker.follow(meter)
        patches.on_undo(tracker.leave)
    trainer.callback_handler.callbacks.insert(0, meter)
    patches.on_undo(lambda: trainer.callback_handler.callbacks.remove(meter))

    def training_step(stock, model, inputs):
        meter.work.add(inputs)
        return stock(model, inputs)

    patches.stand_in(trainer, training_step)
