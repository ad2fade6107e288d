"""Count where training stands, for checkpoints."""

import sys

import mindspore
from mindnlp.engine.callbacks import TrainerCallback

from mindnlp_dp_plugin.checkpoint.environment import environment
from mindnlp_dp_plugin.checkpoint.record import Position, Record
from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.data import ShardedDataset
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.step import Clock, Step, rng
from mindnlp_dp_plugin.trainers import stops
from mindnlp_dp_plugin.trainers.mindnlp.global_batch import divisors
from mindnlp_dp_plugin.trainers.mindnlp.loss_filter import LossFilter
from mindnlp_dp_plugin.trainers.mindnlp.resume.position import Resumption, settings_of


class Progress(TrainerCallback):
    """The first callback; corrects the step and epoch that the others see.

    A micro-step is one call of ``training_step`` by MindNLP's loop, whatever a subclass does in it. It has many
    attributes because each is something that a checkpoint says of where training stands, or where it comes from.

    Args:
        trainer: The Trainer that trains.
        dataset: This rank's share of its data.
        collective: The ranks that train together.
        resumption: The checkpoint to resume from, if any.

    Attributes:
        pending_loss: The Trainer's tensor that sums losses since the last log.
        clock: Counts micro-steps.
        losses: Sums the losses of all ranks.
        step: Makes the optimizer's steps; its order of gradients and its scale of the loss resume with the rest.
    """

    def __init__(
        self,
        trainer,
        dataset: ShardedDataset,
        collective: Collective,
        resumption: Resumption | None,
    ):
        self._trainer = trainer
        self._dataset = dataset
        self._collective = collective
        self._resumption = resumption
        self._before = self._at_last_update = resumption.position if resumption else Position()
        self._epoch = self._before.epoch
        accumulation, begun = trainer.args.gradient_accumulation_steps, self._before
        self.clock = Clock(accumulation, dataset.num_steps, begun.micro_steps, begun.micro_steps_in_epoch)
        self._epoch_has_ended = False
        self._host_random = None
        self.pending_loss = mindspore.tensor(0.0)
        self._carried_loss = 0.0  # what the checkpoint holds of that sum, until it is added

    @property
    def nominal_accumulation(self) -> int:
        """Micro-steps whose gradients a step sums: those of a step when training first began."""
        if self._resumption:
            return self._resumption.nominal_accumulation
        return self._trainer.args.gradient_accumulation_steps

    def follow(self, step: Step, losses: LossFilter) -> None:
        """Save what a step and the losses are."""
        self.step, self.losses = step, losses
        step.optimizer_steps.before.append(self.note_update)

    def loss_since_log(self) -> float:
        """The sum of losses since the last log, before and after the resumption: the mean of all ranks' sums.

        All ranks must call it.
        """
        return self._carried_loss + self.losses.sum_of_ranks(self.pending_loss)

    def sum_losses(self) -> None:
        """Let the Trainer's tensor be that sum. All ranks must call it."""
        mindspore.ops.assign(self.pending_loss, mindspore.tensor(self.loss_since_log(), self.pending_loss.dtype))
        self._carried_loss = 0.0
        self.losses.make_common()

    def begin_micro_step(self) -> None:
        """The first batch of a resumed run is read: the generators of Python and NumPy go on where they stood."""
        self._restore_host_random()

    def note_update(self) -> None:
        """Record that the optimizer is about to step."""
        self._at_last_update = Position(self._epoch, self.clock.micro_steps_in_epoch, self.clock.micro_steps)

    def checkpoint_record(self) -> Record:
        """What a checkpoint holds besides model, optimizer and scheduler. All ranks must call it."""
        trainer, position = self._trainer, self._at_last_update
        control = trainer.control
        num_pending = self.clock.micro_steps - position.micro_steps
        is_full = position.micro_steps_in_epoch == self._dataset.num_steps
        is_cut_short = control.should_epoch_stop or self._epoch_has_ended
        ends_epoch = is_full or (is_cut_short and not control.should_training_stop)
        if ends_epoch and position.epoch == self._epoch and not num_pending:
            position = Position(position.epoch + 1, 0, position.micro_steps)
        end_is_done = self._epoch_has_ended and not control.should_evaluate
        pending_loss, scaler = self.loss_since_log(), self.step.precision.scaler
        return Record(
            **vars(position),
            **trainer.data_parallel_training.as_recorded(),
            # What reproduces its bits: of no other run, as arguments may be nobody else's business.
            command=sys.argv if self.step.micro_batches else None,
            environment=environment() if self.step.micro_batches else None,
            same_bits_on=divisors(self.step.micro_batches.num) if self.step.micro_batches else None,
            # Micro-steps at the end of an epoch may wait for the next one. They are repeated when training resumes.
            epoch_end_is_done=bool(num_pending),
            epoch_end_is_due=(ends_epoch or control.should_training_stop) and not end_is_done,
            **stops.as_recorded(trainer),
            total_loss=trainer._total_loss_scalar + pending_loss,
            pending_loss=pending_loss,
            last_logged_step=trainer._globalstep_last_logged,
            with_optimizer=not trainer.args.save_only_model,
            nominal_accumulation=self.nominal_accumulation,
            settings=settings_of(self._dataset, trainer.args),
            host_random=self._collective.all_gather_object(rng.host_state(), Message("random states")),
            loss_scaling=scaler and dict(vars(scaler)),
        )

    def repeated_micro_steps(self) -> bool:
        """Whether this epoch ends with micro-steps that the checkpoint has counted."""
        if self._resumption is None or not self._resumption.record.epoch_end_is_done:
            return False
        return self._epoch_has_ended and self._epoch == self._before.epoch

    def on_train_begin(self, args, state, control, **kwargs):
        """Restore the counts of the Trainer and its callbacks, if this run resumes."""
        if not self._resumption:
            return
        trainer, record = self._trainer, self._resumption.record
        step = trainer.state.global_step = self._resumption.state["global_step"]
        if self._resumption.first_epoch is not None:
            self._carried_loss = record.pending_loss
        trainer._globalstep_last_logged = step if record.last_logged_step is None else record.last_logged_step
        trainer._total_loss_scalar = record.total_loss - self._carried_loss
        stops.restore_patience(trainer, record.patience)
        if self.step.precision.scaler and record.loss_scaling:
            vars(self.step.precision.scaler).update(record.loss_scaling)
        if record.settings.world_size == self._collective.world_size:
            self._host_random = record.host_random[self._collective.rank]

    def on_epoch_begin(self, args, state, control, **kwargs):
        """Start counting a new epoch."""
        self._epoch = self._dataset.epoch
        self.clock.begin_epoch(self._dataset.num_skipped)
        self._epoch_has_ended = False

    def on_step_end(self, args, state, control, **kwargs):
        """Include skipped micro-steps in the epoch, which MindNLP's loop does not."""
        if self._dataset.num_skipped and self._dataset.num_steps:
            state.epoch = self._epoch + self.clock.micro_steps_in_epoch / self._dataset.num_steps

    def on_epoch_end(self, args, state, control, **kwargs):
        """No row of the epoch is left."""
        self._restore_host_random()
        self._epoch_has_ended = True

    def _restore_host_random(self):
        if self._host_random is not None:
            rng.restore_host_state(self._host_random)
            self._host_random = None
