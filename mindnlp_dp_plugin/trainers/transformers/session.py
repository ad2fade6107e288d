"""One call of ``train()``: from the end of its preparations to its end."""

import contextlib
import copy
import functools
import logging

import mindtorch
from transformers import Trainer

from mindnlp_dp_plugin.checkpoint.record import Origin
from mindnlp_dp_plugin.distributed.gradients import computed
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.step import rng
from mindnlp_dp_plugin.trainers import stops
from mindnlp_dp_plugin.trainers.either import Session
from mindnlp_dp_plugin.trainers.transformers.deferred_files import large_files_deferred
from mindnlp_dp_plugin.trainers.transformers.door import TrainerClock, TrainerDoor
from mindnlp_dp_plugin.trainers.transformers.draws import Draws
from mindnlp_dp_plugin.trainers.transformers.loaders import require_batch_size, shared_out
from mindnlp_dp_plugin.trainers.transformers.rows import CountedRows, deal_out

logger = logging.getLogger(__name__)
LOSSES, TOKENS = Message("losses"), Message("tokens of a micro-batch")


class TrainingSession(Session):
    """A Trainer that trains on ranks.

    It has more attributes than its base for what only this Trainer has.

    Args:
        trainer: The Trainer.
        record: What its checkpoint says, if it resumes from one.

    Attributes:
        clock: Where the loop stands.
        rows: What counts in its batches.
        draws: Where this rank's random numbers stand.
        stop: How a callback has stopped the training of its checkpoint; None if none has.
    """

    def __init__(self, trainer: Trainer, record: dict):
        super().__init__(trainer, Origin.of(record) if record else None, large_files_deferred)
        self._record = record
        # On the instance, around what a subclass overrides.
        self._patches.stand_in(trainer, self._train_dataloader, "get_train_dataloader")
        self._batch = self._last = None
        self.clock = TrainerClock(trainer, record.get("micro_steps", 0))
        self.rows = CountedRows(trainer, self._collective)
        self.draws = Draws(trainer.args.seed, self._collective.rank)
        self.stop = record.get("stop")
        self.preemption.begin()

    on_step_end = Session.on_step_begin  # the next batches are read before that step begins

    def begin(self) -> None:
        """Make the replicas equal, right before the loop. All ranks must call it."""
        stops.restore_patience(self._trainer, self._record.get("patience", []))
        if self.stop and self._collective.rank == 0:
            logger.warning(self.stop.news)
        self._door = TrainerDoor(self._trainer, self.clock, self.preemption)
        self.average(self._door, self._trainer.args.per_device_train_batch_size)
        # On the instance, around what a subclass overrides.
        self._patches.stand_in(self._trainer, self._micro_step, "training_step")
        self._patches.stand_in(self._trainer, self._compute_loss, "compute_loss")
        self._patches.stand_in(self._trainer, self._floating_point_ops, "floating_point_ops")

    def reading(self, batches):
        """The batches of the loop, as they are read."""
        with self.draws.joined():
            yield from self._profiler.reading(batches)

    def share_loss(self, sum_of_losses: mindtorch.Tensor) -> None:
        """At the end of an epoch, make what no log has shown yet the mean over ranks: the Trainer ends with its own.

        Args:
            sum_of_losses: The Trainer's, behind each step and at the end of an epoch; it is changed.
        """
        is_end_of_epoch, self._last = self._last == self.clock.micro_steps, self.clock.micro_steps
        if is_end_of_epoch:
            of_ranks = self._collective.all_gather_object(sum_of_losses.item(), LOSSES)
            sum_of_losses.copy_(mindtorch.full_like(sum_of_losses, sum(of_ranks) / len(of_ranks)))

    @property
    def is_over(self) -> bool:
        """Whether no step is left to train."""
        state = self._trainer.state
        return state.global_step >= state.max_steps or bool(self.stop and self.stop.stays)

    def _train_dataloader(self, stock):
        loader = shared_out(stock(), self._trainer, self._collective)
        require_batch_size(loader, self._trainer)
        deal_out(loader, self.draws)
        return loader

    def _floating_point_ops(self, stock, inputs):
        return stock(inputs) if self.rows.counts(inputs) else 0

    def _take_back_tokens(self, inputs):
        """Those of rows that another rank has, too, which the Trainer has counted."""
        trainer, which = self._trainer, self._trainer.args.include_num_input_tokens_seen
        name = getattr(trainer.model, "main_input_name", "input_ids")
        if which == "no" or name not in inputs or not self.rows.are_read_twice(inputs):
            return
        kept, padding = mindtorch.ones_like(inputs[name]), getattr(trainer.processing_class, "pad_token_id", None)
        if which == "non_padding" and "attention_mask" in inputs:
            kept = inputs["attention_mask"]
        elif which == "non_padding" and padding is not None:
            kept = inputs[name] != padding
        tokens = 0 if self.rows.counts(inputs) else int(kept.sum().item())
        trainer.state.num_input_tokens_seen -= sum(self._collective.all_gather_object(tokens, TOKENS))

    def _micro_step(self, stock, model, inputs, num_items_in_batch=None, *args, **kwargs):
        self._batch = inputs
        self.meter.work.add(inputs)
        self._take_back_tokens(inputs)
        if num_items_in_batch is not None:
            num_items_in_batch = num_items_in_batch / self._collective.world_size  # of all ranks
            if not self.rows.counts(inputs):  # nothing but 0, also where no rank has a label
                num_items_in_batch = num_items_in_batch.clamp(min=1)
        repeated = computed.being(is_repeated=not self.rows.counts(inputs))
        try:
            with repeated, self.step.micro_step(), self._own_dropout():
                return stock(model, inputs, num_items_in_batch, *args, **kwargs)
        finally:
            self._batch = None

    @contextlib.contextmanager
    def _own_dropout(self):
        """Within, the rank draws from the beginning of its streams of the micro-step."""
        found = mindtorch.get_rng_state()
        place = self._door.seed, self._collective.rank, self.clock.micro_steps
        rng.seed_operators(*place)
        mindtorch.manual_seed(rng.seed_of(*place))
        try:
            yield
        finally:
            mindtorch.set_rng_state(found)

    def _compute_loss(self, stock, model, inputs, return_outputs=False, num_items_in_batch=None, **kwargs):
        options = dict(kwargs, return_outputs=return_outputs, num_items_in_batch=num_items_in_batch)
        if self._batch is None:
            return stock(model, inputs, **options)
        if not self.step.is_forward_due:  # of a training_step that takes gradients by itself
            return self._weighed(stock, model, inputs, options)
        return self.step.forward(lambda: self._weighed(stock, model, inputs, options))

    def _weighed(self, stock, model, inputs, options):
        by_twice = None
        if options["num_items_in_batch"] is not None:  # to compute a loss takes labels out, and may draw
            by_twice = functools.partial(self._by_twice, stock, model, copy.copy(inputs), rng.host_state(), options)
        found = stock(model, inputs, **options)
        loss, outputs = found if options["return_outputs"] else (found, None)
        loss = self.rows.weighed(loss, self._batch, self._door, by_twice)
        return (loss, outputs) if options["return_outputs"] else loss

    def _by_twice(self, stock, model, inputs, drawn, options, with_gradients=False):
        """The loss again, with the same dropout and draws, divided by twice the number of labels."""
        twice = {**options, "num_items_in_batch": 2 * options["num_items_in_batch"], "return_outputs": False}
        recorded = contextlib.nullcontext() if with_gradients else mindtorch.no_grad()
        with rng.host_at(drawn), self._own_dropout(), recorded:
            return stock(model, copy.copy(inputs), **twice)
