"""One call of ``Trainer.train()`` on several ranks, from its first collective to its last."""

from mindnlp_dp_plugin.collectives import Collective, require_same
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.data import ShardedDataset, shard
from mindnlp_dp_plugin.ddp.replicas import SharedBuffers, check_buffers, check_parameters, make_replicas
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.optim.first_step import FirstStep
from mindnlp_dp_plugin.optim.parameters import parameters_outside
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.patching import Replacements
from mindnlp_dp_plugin.trainer.averaging import Averaging
from mindnlp_dp_plugin.trainer.fast_path import install_fast_path
from mindnlp_dp_plugin.trainer.grouping import shard_by_length
from mindnlp_dp_plugin.trainer.observe.step_tracer import StepTracer
from mindnlp_dp_plugin.trainer.observe.tensorboard import TensorBoardCallback
from mindnlp_dp_plugin.trainer.observe.throughput import Meter
from mindnlp_dp_plugin.trainer.resume.position import Resumption, settings_of
from mindnlp_dp_plugin.trainer.resume.progress import Progress
from mindnlp_dp_plugin.trainer.same_data import require_same_labels, require_same_rows


class TrainingSession:
    """Shards the data, installs everything right before the loop, and removes it afterwards.

    Args:
        trainer: The ``mindnlp.engine.Trainer`` that trains.
        collective: The ranks that train together.
        config: The settings.
        resumption: The checkpoint to resume from, if any.

    Attributes:
        resumption: The same.
        progress: Counts where training stands, from ``begin`` on.
        averaging: Averages gradients, from ``begin`` on.
        meter: Measures time and waiting, from ``begin`` on.
    """

    def __init__(
        self, trainer, collective: Collective, config: DataParallelConfig, resumption: Resumption | None = None
    ):
        self._trainer = trainer
        self._collective = collective
        self._config = config
        self.resumption = resumption
        self._callbacks = []
        self._checked_step = None
        self._replacements = Replacements()
        # On the instance, so that an overriding subclass is covered.
        self._replacements.replace(trainer, "get_train_dataset", self._shard_train_dataset)
        for argument in ("max_steps", "gradient_accumulation_steps"):  # resuming may change them
            self._replacements.replace(trainer.args, argument, getattr(trainer.args, argument))

    def begin(self) -> None:
        """Make the replicas equal and install the reducer. All ranks must call it, right before the loop."""
        trainer, collective, config = self._trainer, self._collective, self._config
        require_same_labels(trainer.model, collective)
        check_buffers(trainer.model, collective)
        make_replicas(trainer.model, collective, self._outside())
        self._buffers = SharedBuffers(trainer.model, collective)
        self.progress = Progress(trainer, self._dataset, collective, self.resumption)
        steps = WatchedSteps(self._replacements)
        tracer = StepTracer(collective, config.trace) if config.trace else None
        carrier = tracer.collective if tracer else collective
        self.averaging = Averaging(trainer, collective, carrier, config, self.progress, steps, self._replacements)
        self.meter = Meter(collective, self.averaging)
        self._replacements.stand_in(trainer, self.training_step)  # on the instance, as above
        steps.before.append(self.progress.note_update)
        FirstStep(trainer, steps)
        steps.after.append(self._check_when_due)
        if tracer:
            tracer.install(trainer, self.progress, steps, self._replacements)
        steps.watch(trainer.optimizer)
        install_fast_path(trainer, self.averaging.reducer, self._replacements)
        for callback in self._trackers():
            callback.follow(self.meter, config)
        self._callbacks = [self.progress, self.meter, *([tracer] if tracer else [])]
        trainer.callback_handler.callbacks[:0] = self._callbacks

    def training_step(self, stock, model, inputs):
        """One micro-step of the loop, including an overridden ``training_step``. All ranks must call it."""
        self.progress.begin_micro_step()
        self.averaging.begin_micro_step()
        loss = stock(model, inputs)
        self.averaging.end_micro_step()
        self._buffers.share()
        self.progress.end_micro_step()
        return loss

    def check_replicas(self, step: int) -> None:
        """Raise if ranks hold different parameters; skipped if this step was checked, or checks are off.

        All ranks must call it.

        Args:
            step: Number of steps the optimizer has made.
        """
        if self._config.check_replicas_every != 0 and step != self._checked_step:
            check_parameters(self._trainer.model, self._collective, step, self._outside())
            self._checked_step = step

    def close(self) -> None:
        """Leave trainer and model as they were found."""
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

    def _shard_train_dataset(self) -> ShardedDataset:
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
            "Give every rank the same whole data set: the plugin shards it. If you sharded it yourself, make the "
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

    def _outside(self):
        """Names and tensors that are trained but are not the model's."""
        return parameters_outside(self._trainer.model, self._trainer.optimizer).items()

    def _trackers(self):
        callbacks = self._trainer.callback_handler.callbacks
        return [callback for callback in callbacks if isinstance(callback, TensorBoardCallback)]

    def _check_when_due(self):
        step, every = self._trainer.state.global_step + 1, self._config.check_replicas_every
        if self._checked_step is None or (every and step % every == 0):
            self.check_replicas(step)


def _describe_length(dataset):
    rows = "an unknown number of rows" if dataset.num_rows is None else f"{dataset.num_rows} rows"
    steps = dataset.num_steps
    return rows if steps is None else f"{rows} in {steps} steps"
