"""What one call of ``Trainer.train()`` needs to train data-parallel, from its first collective to its last."""

import functools
from typing import Any

import mindspore

from mindnlp_dp_plugin.collectives import Collective, require_same
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.data import ShardedDataset, shard
from mindnlp_dp_plugin.ddp import GradientReducer
from mindnlp_dp_plugin.ddp.replicas import SharedBuffers, check_parameters, make_replicas
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.patching import Replacements
from mindnlp_dp_plugin.trainer.averages import CountedAverage
from mindnlp_dp_plugin.trainer.fast_path import make_lean
from mindnlp_dp_plugin.trainer.grouping import shard_by_length
from mindnlp_dp_plugin.trainer.observe.step_tracer import StepTracer
from mindnlp_dp_plugin.trainer.observe.tensorboard import TensorBoardCallback
from mindnlp_dp_plugin.trainer.observe.throughput import Meter
from mindnlp_dp_plugin.trainer.resume import agreement, rng
from mindnlp_dp_plugin.trainer.resume.position import Bookkeeper, Position, Resumption, settings_of
from mindnlp_dp_plugin.trainer.same_data import require_same_labels, require_same_rows


class TrainingSession:
    """The sharded data, the replicas, the reducer, the rule when to synchronise, and where training stands.

    Args:
        trainer: The ``mindnlp.engine.Trainer`` that trains.
        collective: The ranks that train together.
        config: How.
        resumption: The checkpoint to go on from, if any.

    Attributes:
        resumption: The same.
        pending_loss: What the Trainer has summed since it last logged; the Trainer's own tensor.
        meter: What training takes, from ``begin`` on.
        average: The mean to train by, if another than that over the ranks; None otherwise.
    """

    def __init__(
        self, trainer, collective: Collective, config: DataParallelConfig, resumption: Resumption | None = None
    ):
        self._trainer = trainer
        self._collective = collective
        self._config = config
        self.resumption = resumption
        self.pending_loss = mindspore.tensor(0.0)
        self._before = resumption.position if resumption else Position()
        self._at_last_update = self._before
        self._micro_steps = 0
        self._epoch, self._micro_steps_in_epoch = self._before.epoch, self._before.micro_steps_in_epoch
        self._epoch_has_ended = False
        self._host_random = None
        self._bookkeeper = Bookkeeper(self)
        self._user_max_steps = trainer.args.max_steps
        self._user_accumulation = trainer.args.gradient_accumulation_steps
        self._gradients_are_averaged = False
        self._reducer = None
        self.average = None
        self._tracer = None
        self._replacements = Replacements()

    def shard_train_dataset(self) -> ShardedDataset:
        """This rank's share of the training data. To be called on all ranks.

        Raises:
            DataParallelError: If the ranks hold different data sets (of different length, one would wait for ever), too
                short a one for a single step, or one that cannot be grouped by length though it is to be.
        """
        stock = type(self._trainer).get_train_dataset
        args = self._trainer.args
        rank, world_size = self._collective.rank, self._collective.world_size
        whole = stock(self._trainer)
        self._dataset = shard(whole, world_size, rank, args.seed)
        length = _describe_length(self._dataset)
        require_same(
            "train_dataset",
            length,
            self._collective,
            "Give every rank the same whole data set: the plugin deals it out. If you sharded it yourself, make the "
            "shards equally long.",
        )
        require_same_rows("train_dataset", whole, self._collective)
        if args.group_by_length:
            self._dataset = shard_by_length(whole, args, self._collective)
        if self._dataset.num_steps == 0:
            raise DataParallelError(
                f"train_dataset has {length}: too few rows for one batch of {self._dataset.get_batch_size()} on "
                f"each of {world_size} ranks. Take a smaller batch, fewer ranks, or drop_remainder=False."
            )
        if self.resumption:
            self.resumption.place(self._dataset, settings_of(self._dataset, args), args)
        return self._dataset

    def begin(self) -> None:
        """Make the replicas equal and put the reducer on them. To be called on all ranks, right before the loop."""
        require_same_labels(self._trainer.model, self._collective)
        make_replicas(self._trainer.model, self._collective)
        self._buffers = SharedBuffers(self._trainer.model, self._collective)
        trained = {id(p) for group in self._trainer.optimizer.param_groups for p in group["params"]}
        parameters = [p for _, p in self._trainer.model.named_parameters() if id(p) in trained]
        if self._config.average_over != "ranks":
            self.average = CountedAverage(self._trainer, parameters, self._collective, self._config.average_over)
        carrier = self._collective
        if self._config.trace:
            self._tracer = StepTracer(self._trainer, self._collective, self._config.trace)
            self._trainer.add_callback(self._tracer)
            carrier = self._tracer.collective
        self._reducer = GradientReducer(parameters, carrier, self._config.bucket_cap_mb, self._config.comm_dtype)
        make_lean(self._trainer, self._reducer, self._replacements)
        self._guard_optimizer()
        self.meter = Meter(self._collective, self._reducer)
        for callback in self._trackers():
            callback.follow(self.meter, self._config)
        self._trainer.callback_handler.callbacks[:0] = [self._bookkeeper, self.meter]

    def prepare(self, inputs) -> None:
        """Before forward: begin its random stream. Start all-reduces from backward, if the optimizer steps after it.

        To be called on all ranks.
        """
        if self._host_random is not None:
            rng.restore_host_state(self._host_random)
            self._host_random = None
        made = self._before.micro_steps + self._micro_steps
        rng.seed_operators(self._trainer.args.seed, self._collective.rank, made)
        if self.average:
            self.average.take_in(inputs)
        if self._optimizer_steps_after(self._micro_steps + 1):
            self._reducer.prepare(self.average and self.average.sum_counts())
        self._begin_phase("forward")

    def synchronize(self) -> None:
        """After backward: average the gradients, if the optimizer steps now, and share buffers that forward changed.

        To be called on all ranks.
        """
        self._begin_phase("wait for gradients")
        if self.average:
            self.average.end_backward()
        self._micro_steps += 1
        self._micro_steps_in_epoch += 1
        self._gradients_are_averaged = self._optimizer_steps_after(self._micro_steps)
        if self._gradients_are_averaged:
            self._reducer.finish()
            if self.average:
                self.average.settle()
        self._buffers.share()
        self._begin_phase("clip" if self._gradients_are_averaged else "data")

    def close(self) -> None:
        """Leave trainer and model as they were found."""
        self._trainer.args.max_steps = self._user_max_steps
        self._trainer.args.gradient_accumulation_steps = self._user_accumulation
        if self._tracer:
            self._tracer.close()
            self._trainer.remove_callback(self._tracer)
        if self.average:
            self.average.close()
        if self._reducer is not None:
            self._reducer.close()
            self._trainer.optimizer.step = self._unguarded_step
            self._trainer.callback_handler.callbacks.remove(self._bookkeeper)
            self._trainer.callback_handler.callbacks.remove(self.meter)
            for callback in self._trackers():
                callback.close()
        self._replacements.undo()  # last: the trackers listen to what was replaced

    @property
    def global_batch(self) -> int:
        """Rows of an optimizer step over all ranks."""
        accumulation = self._trainer.args.gradient_accumulation_steps
        return self._dataset.get_batch_size() * accumulation * self._collective.world_size

    def progress(self) -> dict[str, Any]:
        """What a checkpoint holds beside model, optimizer and scheduler. To be called on all ranks."""
        trainer, state, position = self._trainer, self._trainer.state, self._at_last_update
        num_pending = self._before.micro_steps + self._micro_steps - position.micro_steps
        is_full = position.micro_steps_in_epoch == self._dataset.num_steps
        was_cut_short = self._epoch_has_ended and not trainer.control.should_training_stop
        if (is_full or was_cut_short) and not num_pending:
            position = Position(position.epoch + 1, 0, position.micro_steps)
        everyone = self._collective.all_gather_object((self.pending_loss.item(), rng.host_state()))
        losses, host_random = zip(*everyone)
        return {
            **vars(position),
            **agreement.origin(),
            # Micro-steps at the end of an epoch may wait for the next one. They are made again when training resumes.
            "epoch_end_is_done": bool(num_pending),
            "stopped_early": trainer.control.should_training_stop and state.global_step < state.max_steps,
            "total_loss": trainer._total_loss_scalar + sum(losses) / len(losses),
            "patience": [callback.early_stopping_patience_counter for callback in self._callbacks_with_patience()],
            "with_optimizer": not trainer.args.save_only_model,
            "settings": settings_of(self._dataset, trainer.args),
            "host_random": host_random,
        }

    def tell_trainer(self, folder: str) -> None:
        """Leave in ``folder`` what MindNLP's loop is to read of the checkpoint."""
        self.resumption.tell_trainer(folder, self._dataset, self._trainer.args)

    def bring_back_progress(self) -> None:
        """Right before the loop: what the Trainer and its callbacks had counted, if this run resumes another."""
        if not self.resumption:
            return
        trainer, record = self._trainer, self.resumption.record
        trainer.state.global_step = trainer._globalstep_last_logged = self.resumption.state["global_step"]
        trainer._total_loss_scalar = record["total_loss"]
        for callback, patience in zip(self._callbacks_with_patience(), record["patience"]):
            callback.early_stopping_patience_counter = patience
        if record["settings"]["world_size"] == self._collective.world_size:
            self._host_random = record["host_random"][self._collective.rank]

    def begin_epoch(self) -> None:
        """Count anew."""
        self._epoch, self._micro_steps_in_epoch = self._dataset.epoch, self._dataset.num_skipped
        self._epoch_has_ended = False

    def correct_epoch(self, state) -> None:
        """Count what was skipped, which MindNLP's loop does not know of."""
        if self._dataset.num_skipped and self._dataset.num_steps:
            state.epoch = self._epoch + self._micro_steps_in_epoch / self._dataset.num_steps

    def end_epoch(self) -> None:
        """No row of this epoch is left."""
        self._epoch_has_ended = True

    def repeats_end_of_epoch(self) -> bool:
        """Whether the epoch that ends here had ended, been evaluated and saved, before training was stopped."""
        record = self.resumption.record if self.resumption else {"epoch_end_is_done": False}
        return record["epoch_end_is_done"] and self._epoch_has_ended and self._epoch == self._before.epoch

    def _trackers(self):
        callbacks = self._trainer.callback_handler.callbacks
        return [callback for callback in callbacks if isinstance(callback, TensorBoardCallback)]

    def _callbacks_with_patience(self):
        callbacks = self._trainer.callback_handler.callbacks
        return [callback for callback in callbacks if hasattr(callback, "early_stopping_patience_counter")]

    def _optimizer_steps_after(self, micro_step):
        """The Trainer's own rule, widened where it is harmless: gradients of a short epoch are averaged each time.

        The Trainer steps when the count of micro-steps since train() began is a multiple of the accumulation, or at
        the end of an epoch that is no longer than the accumulation.
        """
        accumulation = self._trainer.args.gradient_accumulation_steps
        num_steps = self._dataset.num_steps
        return micro_step % accumulation == 0 or (num_steps is not None and num_steps <= accumulation)

    def _guard_optimizer(self):
        optimizer = self._trainer.optimizer
        self._unguarded_step = optimizer.step

        @functools.wraps(optimizer.step)  # the learning rate scheduler has left a mark on it
        def step(*args, **kwargs):
            if not self._gradients_are_averaged:
                raise DataParallelError(
                    "optimizer.step() with gradients that were not averaged over the ranks: replicas would drift "
                    "apart. An overridden training_step must call self.update_gradient_by_distributed_type(model)."
                )
            self._gradients_are_averaged = False
            if self.average:
                self.average.reset()
            made = self._before.micro_steps + self._micro_steps
            self._at_last_update = Position(self._epoch, self._micro_steps_in_epoch, made)
            self._begin_phase("optimizer")
            result = self._unguarded_step(*args, **kwargs)
            self._begin_phase("data")
            self._check_replicas()
            return result

        optimizer.step = step

    def _begin_phase(self, name):
        if self._tracer:
            self._tracer.begin_phase(name)

    def _check_replicas(self):
        step, every = self._trainer.state.global_step + 1, self._config.check_replicas_every
        if every and step % every == 0:
            check_parameters(self._trainer.model, self._collective, step)


def _describe_length(dataset):
    rows = "an unknown number of rows" if dataset.num_rows is None else f"{dataset.num_rows} rows"
    steps = dataset.num_steps
    return rows if steps is None else f"{rows} in {steps} steps"
