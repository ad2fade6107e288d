"""One call of ``Trainer.train()`` on several ranks, from its first collective to its last."""

import logging

from mindnlp_dp_plugin.checkpoint.background import BackgroundSave
from mindnlp_dp_plugin.collectives import Collective, require_same
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.ddp.replicas import SharedBuffers, check_buffers, make_replicas
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.optim.parameters import parameters_outside
from mindnlp_dp_plugin.optim.sharded import join_states, share_states
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.patching import Replacements
from mindnlp_dp_plugin.trainers.mindnlp.averaging import Averaging
from mindnlp_dp_plugin.trainers.mindnlp.fast_path import install_fast_path
from mindnlp_dp_plugin.trainers.mindnlp.first_step import FirstStep
from mindnlp_dp_plugin.trainers.mindnlp.loss_filter import LossFilter
from mindnlp_dp_plugin.trainers.mindnlp.mixed_precision import MixedPrecision
from mindnlp_dp_plugin.trainers.mindnlp.observe.pace import Pace
from mindnlp_dp_plugin.trainers.mindnlp.observe.step_tracer import StepTracer
from mindnlp_dp_plugin.trainers.mindnlp.observe.throughput import Meter
from mindnlp_dp_plugin.trainers.mindnlp.observe.tracker import Tracker
from mindnlp_dp_plugin.trainers.mindnlp.preemption import Preemption
from mindnlp_dp_plugin.trainers.mindnlp.replica_check import ReplicaCheck
from mindnlp_dp_plugin.trainers.mindnlp.resume.end_of_epoch import EndOfEpoch
from mindnlp_dp_plugin.trainers.mindnlp.resume.position import Resumption, settings_of
from mindnlp_dp_plugin.trainers.mindnlp.resume.progress import Progress
from mindnlp_dp_plugin.trainers.mindnlp.same_data import require_same_labels
from mindnlp_dp_plugin.trainers.mindnlp.snapshots import Snapshots
from mindnlp_dp_plugin.trainers.mindnlp.train_data import shard_train_dataset

logger = logging.getLogger(__name__)


class TrainingSession:
    """Shards the data, installs everything right before the loop, and removes it afterwards.

    Args:
        trainer: The ``mindnlp.engine.Trainer`` that trains.
        collective: The ranks that train together.
        config: The settings.
        resumption: The checkpoint to resume from, if any.

    Attributes:
        resumption: The same.
        save: The checkpoint that is being written while training goes on.
        snapshots: Checkpoints in memory, from ``begin`` on.
        preemption: Notes signals that ask for the end of training, from ``begin`` on.
        progress: Counts where training stands, from ``begin`` on.
        averaging: Averages gradients, from ``begin`` on.
        losses: Keeps those that are not finite out of the log, from ``begin`` on.
        check_replicas: Compares the ranks' parameters when called, from ``begin`` on.
        pace: Compares what ranks take for their own work, from ``begin`` on.
        meter: Measures time and waiting, from ``begin`` on.
    """

    def __init__(
        self, trainer, collective: Collective, config: DataParallelConfig, resumption: Resumption | None = None
    ):
        self._trainer = trainer
        self._collective = collective
        self._config = config
        self.resumption = resumption
        self.preemption = Preemption()
        self.save = BackgroundSave()
        self.snapshots: Snapshots | None = None
        self._callbacks = []
        self._replacements = Replacements()
        self._replacements.replace(trainer, "data_parallel_session", self)
        # On the instance, so that an overriding subclass is covered, or what the script itself has set there.
        self._whole_train_dataset = trainer.get_train_dataset
        self._replacements.replace(trainer, "get_train_dataset", self._share_of_train_dataset)
        for argument in ("max_steps", "gradient_accumulation_steps"):  # resuming may change them
            self._replacements.replace(trainer.args, argument, getattr(trainer.args, argument))

    def begin(self) -> None:
        """Make the replicas equal and install the reducer. All ranks must call it, right before the loop."""
        trainer, collective, config = self._trainer, self._collective, self._config
        require_same_labels(trainer.model, collective)
        check_buffers(trainer.model, collective)
        make_replicas(trainer.model, collective, parameters_outside(trainer.model, trainer.optimizer).items())
        self._buffers = SharedBuffers(trainer.model, collective)
        steps = WatchedSteps(self._replacements)
        shares = self._share_states(steps)
        precision = MixedPrecision(trainer, config, steps, self._replacements)
        self.progress = Progress(trainer, self._dataset, collective, self.resumption, precision.scaler)
        self.snapshots = Snapshots(trainer, self.progress, collective, config.snapshot_every)
        tracer = StepTracer(collective, config.trace) if config.trace else None
        carrier = tracer.collective if tracer else collective
        counted = self.progress, self.preemption
        self.averaging = Averaging(
            trainer, collective, carrier, config, *counted, precision, steps, self._replacements, shares
        )
        self.progress.follow(self.averaging.reducer)
        self.losses = LossFilter(trainer, self._replacements)
        self.pace = Pace(collective, self.averaging)
        self.meter = Meter(collective, self.averaging, self.pace)
        self._replacements.stand_in(trainer, self.training_step)  # on the instance, as above
        steps.before.append(self.progress.note_update)
        FirstStep(trainer, steps)
        self.check_replicas = ReplicaCheck(trainer, collective, config.check_replicas_every, steps)
        if tracer:
            tracer.install(trainer, self.progress, steps, self._replacements)
        steps.watch(trainer.optimizer)
        install_fast_path(trainer, self.averaging.reducer, self._replacements)
        for callback in self._trackers():
            callback.follow(self.meter, config)
        self._callbacks = [self.progress, self.meter, self.pace, *([tracer] if tracer else [])]
        if self.resumption:
            self._callbacks.append(EndOfEpoch(self.resumption, self._replacements))
        trainer.callback_handler.callbacks[:0] = self._callbacks
        self.preemption.begin()

    def training_step(self, stock, model, inputs):
        """One micro-step of the loop, including an overridden ``training_step``. All ranks must call it."""
        self.progress.begin_micro_step()
        self.averaging.begin_micro_step()
        loss = stock(model, inputs)
        self.averaging.end_micro_step()
        self._buffers.share()
        self.progress.end_micro_step()
        return self.losses.filtered(loss)

    def close(self) -> None:
        """Leave trainer and model as they were found."""
        self.save.abandon()
        if self.snapshots:
            self.snapshots.abandon()
        self.preemption.end()
        if self._callbacks:
            callbacks = self._trainer.callback_handler.callbacks
            for callback in self._callbacks:
                callbacks.remove(callback)
            for callback in self._trackers():
                callback.close()
            self.averaging.reducer.close()
        self._replacements.undo()  # last: the trackers use what was replaced

    @property
    def global_batch(self) -> int:
        """Rows in an optimizer step over all ranks."""
        accumulation = self._trainer.args.gradient_accumulation_steps
        return self._dataset.get_batch_size() * accumulation * self._collective.world_size

    def write_stock_state(self, folder: str) -> None:
        """Write to ``folder`` the state that MindNLP's loop reads when it resumes."""
        self.resumption.write_stock_state(folder, self._dataset, self._trainer.args)

    def _share_states(self, steps):
        """Let each rank keep what ``zero_stage`` says. Returns the ``shares`` of ``GradientReducer``."""
        trainer, collective, config = self._trainer, self._collective, self._config
        hint = Message("Start all ranks with the same MINDNLP_DP_ZERO_STAGE.")
        require_same("zero_stage", config.zero_stage, collective, hint)
        if config.zero_stage == 0:
            join_states(trainer.optimizer)
            return None

        def states_of(optimizer):
            return share_states(optimizer, collective, config.bucket_cap_mb)

        states_of(trainer.optimizer)  # raises if they cannot be cut
        steps.way = lambda optimizer, step: states_of(optimizer).step(step, self.averaging.reducer.kept)
        if config.zero_stage == 1:
            kept = Message(
                "zero_stage=1: gradients are all-reduced, parameters gathered after each step; a rank keeps 1/{ranks} "
                "of the optimizer's states"
            )
        elif collective.can_reduce_scatter:
            kept = Message(
                "zero_stage=2: gradients are reduce-scattered, parameters gathered after each step; a rank keeps "
                "1/{ranks} of the optimizer's states and of the averaged gradients"
            )
        else:
            kept = Message(
                "zero_stage=2: gradients are all-reduced, as this engine has no reduce-scatter, parameters gathered "
                "after each step; a rank keeps 1/{ranks} of the optimizer's states and of the averaged gradients"
            )
        logger.info(tr(kept, ranks=collective.world_size))
        return (lambda order: states_of(trainer.optimizer).buckets(order)) if config.zero_stage == 2 else None

    def _share_of_train_dataset(self):
        args = self._trainer.args
        self._dataset = shard_train_dataset(self._whole_train_dataset(), self._trainer, self._collective)
        if self.resumption:
            self.resumption.place(self._dataset, settings_of(self._dataset, args), args)
        return self._dataset

    def _trackers(self):
        callbacks = self._trainer.callback_handler.callbacks
        return [callback for callback in callbacks if isinstance(callback, Tracker)]
