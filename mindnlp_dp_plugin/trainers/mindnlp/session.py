"""One call of ``Trainer.train()`` on several ranks, from its first collective to its last."""

import functools
import logging

import mindspore

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.step.dispatching import dispatch_training_rows
from mindnlp_dp_plugin.step.elastic import micro_batches_of
from mindnlp_dp_plugin.step.packed_rows import require_packed_rows_read
from mindnlp_dp_plugin.step.training_rows import shard_training_rows
from mindnlp_dp_plugin.trainers.either import Session
from mindnlp_dp_plugin.trainers.mindnlp.deferred_files import large_files_deferred
from mindnlp_dp_plugin.trainers.mindnlp.door import TrainerDoor
from mindnlp_dp_plugin.trainers.mindnlp.grouping import shard_by_length
from mindnlp_dp_plugin.trainers.mindnlp.loss_filter import loss_filter_of
from mindnlp_dp_plugin.trainers.mindnlp.mixed_precision import show_loss_scaling
from mindnlp_dp_plugin.trainers.mindnlp.resume.end_of_epoch import EndOfEpoch
from mindnlp_dp_plugin.trainers.mindnlp.resume.position import Resumption, settings_of
from mindnlp_dp_plugin.trainers.mindnlp.resume.progress import Progress
from mindnlp_dp_plugin.trainers.observe.tracker import trackers_of

logger = logging.getLogger(__name__)


class TrainingSession(Session):
    """Shards the data, installs everything right before the loop, and removes it afterwards.

    Args:
        trainer: The ``mindnlp.engine.Trainer`` that trains.
        resumption: The checkpoint to resume from, if any.

    Attributes:
        resumption: The same.
        progress: Counts where training stands, from ``begin`` on.
        losses: Keeps those that are not finite out of the log, from ``begin`` on.
    """

    def __init__(self, trainer, resumption: Resumption | None = None):
        super().__init__(trainer, resumption and resumption.record, large_files_deferred)
        self.resumption = resumption
        # On the instance, so that an overriding subclass is covered, or what the script itself has set there.
        self._whole_train_dataset = trainer.get_train_dataset
        self._patches.replace(trainer, "get_train_dataset", self._share_of_train_dataset)
        self._patches.replace(trainer.args, "max_steps", trainer.args.max_steps)  # resuming may change it

    def begin(self) -> None:
        """Make the replicas equal, and average from now on. All ranks must call it, right before the loop."""
        trainer, collective = self._trainer, self._collective
        self.progress = Progress(trainer, self._dataset, collective, self.resumption)
        door = TrainerDoor(trainer, self.progress.clock, self.progress.nominal_accumulation, self.preemption)
        ends = [EndOfEpoch(self.resumption, self._patches)] if self.resumption else []
        self.average(door, self._dataset.get_batch_size(), self.progress, *ends)
        self.step.compare_rows(self._dataset)
        self.losses = loss_filter_of(self.step, trainer, collective, self._patches)
        self.progress.follow(self.step, self.losses)
        self._stand_in()
        self._observe(door)
        self.preemption.begin()

    def _stand_in(self):
        """On the instance, so that what an overriding subclass does is within."""
        trainer, patches = self._trainer, self._patches
        show_loss_scaling(trainer, self.step.precision, patches)
        patches.stand_in(trainer, self.micro_step, "training_step")
        patches.stand_in(trainer, self.compute_loss)
        count_parameters_once(trainer.model, patches)

    def _observe(self, door):
        read = self._dataset.create_dict_iterator
        self._patches.replace(
            self._dataset,
            "create_dict_iterator",
            lambda **options: self.step.announcements.read(self._profiler.reading(read(**options)), self._dataset),
        )
        self.meter.listen_to_clipping(door.utils, self._patches)
        for tracker in trackers_of(self._trainer):
            tracker.follow(self.meter, self._config)
            self._patches.on_undo(tracker.leave)

    def micro_step(self, stock, model, inputs):
        """One batch of the loop, and whatever an overridden ``training_step`` does with it. All ranks must call it."""
        self.progress.begin_micro_step()
        self.meter.work.add(inputs)
        with self.step.micro_step():
            loss = stock(model, inputs)
        return self.losses.filtered(self.step.recorded(loss))

    def compute_loss(self, stock, *args, **kwargs):
        """The Trainer's forward."""
        return self.step.forward(functools.partial(stock, *args, **kwargs))

    def repeats_an_end_of_epoch(self, sum_of_losses) -> bool:
        """Take the Trainer's sum of losses. True at the end of an epoch whose log and evaluation the checkpoint holds.

        The losses of micro-steps that are repeated there count once.
        """
        self.losses.follow(sum_of_losses)
        if self.progress.repeated_micro_steps():
            mindspore.ops.assign(sum_of_losses, mindspore.tensor(0.0, sum_of_losses.dtype))
            if not self.resumption.end_is_due:
                return True
        self.progress.pending_loss = sum_of_losses
        return False

    def write_stock_state(self, folder: str) -> None:
        """Write to ``folder`` the state that MindNLP's loop reads when it resumes."""
        self.resumption.write_stock_state(folder, self._dataset, self._trainer.args)

    def _share_of_train_dataset(self):
        args = self._trainer.args
        if args.auto_find_batch_size:
            raise DataParallelError(
                "auto_find_batch_size=True: a rank that runs out of memory would begin again alone, with other "
                "batches. Leave it out; use a smaller batch, and gradient_accumulation_steps for the rest."
            )
        whole = self._whole_train_dataset()
        require_packed_rows_read(self._trainer.model, whole)
        micro_batches = micro_batches_of(args.gradient_accumulation_steps, self._collective, self._config)
        grouped = None
        if args.group_by_length:
            if self._config.dispatch_batches:
                raise DataParallelError(
                    "group_by_length=True with dispatch_batches: rank 0 reads rows in the order in which they come. "
                    "Leave one of the two out."
                )
            grouped = functools.partial(shard_by_length, whole, args, self._collective, micro_batches)
        settings = {"TrainingArguments.gradient_accumulation_steps": args.gradient_accumulation_steps}
        if self._config.dispatch_batches:
            self._dataset = dispatch_training_rows(
                whole, self._collective, settings, args.seed, micro_batches, counts=args.max_steps <= 0
            )
        else:
            self._dataset = shard_training_rows(whole, self._collective, settings, args.seed, grouped, micro_batches)
        if self.resumption:
            self.resumption.place(self._dataset, settings_of(self._dataset, args), args)
            if self._collective.rank == 0 and (news := self.resumption.news):
                logger.warning(news)
        return self._dataset


def count_parameters_once(model, patches: Patches) -> None:
    """To estimate floating point operations, MindNLP counts the parameters in each step by a walk over all modules."""
    counts = getattr(getattr(model, "floating_point_ops", None), "__self__", None)
    if hasattr(counts, "num_parameters"):
        patches.replace(counts, "num_parameters", functools.cache(counts.num_parameters))
