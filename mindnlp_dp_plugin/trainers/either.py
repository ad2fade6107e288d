"""What the doors of MindNLP's Trainer and of Hugging Face's have in common: it imports neither."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.agreement import agreed_checkpoint, open_workspaces
from mindnlp_dp_plugin.checkpoint.record import Origin
from mindnlp_dp_plugin.checkpoint.training import begin_training
from mindnlp_dp_plugin.checkpoint.writer import Deferring, Writer
from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.job.rank_status import note_exception, show_status
from mindnlp_dp_plugin.patching import Patches, replaced
from mindnlp_dp_plugin.port import Clock, Door
from mindnlp_dp_plugin.step import Step
from mindnlp_dp_plugin.step.labels import name_of_labels
from mindnlp_dp_plugin.step.left_out import left_out
from mindnlp_dp_plugin.step.preemption import Preemption
from mindnlp_dp_plugin.trainers.best_checkpoint import BestIsHere
from mindnlp_dp_plugin.trainers.observe.callback import Callback
from mindnlp_dp_plugin.trainers.observe.profile import StepProfiler
from mindnlp_dp_plugin.trainers.observe.throughput import Meter
from mindnlp_dp_plugin.trainers.schedules import ScheduleLength


class TrainerDoor(Door):
    """A Trainer that is about to train.

    Args:
        trainer: The Trainer.
        clock: Where its loop stands.
        preemption: Signals that ask for the end of training; ranks vote on them.
    """

    def __init__(self, trainer, clock: Clock, preemption: Preemption):
        self._trainer = trainer
        self.clock = clock
        self.name = type(trainer).__name__
        self.seed = trainer.args.seed
        self.accumulation = self.nominal_accumulation = trainer.args.gradient_accumulation_steps
        self.labels = name_of_labels(trainer.args.label_names, trainer.model)
        self.votes, self.count = preemption.votes, preemption.count

    @property
    def model(self):
        """The Trainer's."""
        return self._trainer.model

    @property
    def optimizer(self):
        """The Trainer's; a callback may replace it."""
        return self._trainer.optimizer

    @property
    def num_steps(self) -> int:
        """Optimizer steps, as the Trainer counts them."""
        return self._trainer.state.global_step

    @property
    def leaves_out(self) -> str | None:
        """Those that the model leaves out."""
        return left_out(self.model)


@contextmanager
def failures_noted() -> Iterator[None]:
    """A context for ``train``: the other ranks are told of what it raises."""
    rank = current().rank
    note_exception(rank, None)
    try:
        yield
    except Exception as error:
        note_exception(rank, error)
        raise


@contextmanager
def going_on_from(trainer, wanted: Any, judge: store.Judge) -> Iterator[tuple[str | None, bool]]:
    """A context for a training in ``output_dir``. All ranks must enter it.

    Args:
        trainer: It is about to train; gets ``data_parallel_training``.
        wanted: The script's ``resume_from_checkpoint``.
        judge: What is wrong with a checkpoint of this Trainer.

    Yields:
        What ``agreed_checkpoint`` returns.

    Raises:
        DataParallelError: If another job writes there, or not all ranks can go on from the same.
    """
    group, output_dir, writes = current(), trainer.args.output_dir, trainer.args.should_save
    try:
        open_workspaces(output_dir, writes, group)
        trainer.data_parallel_training = training = begin_training(output_dir, group)
        yield agreed_checkpoint(training, wanted, trainer.data_parallel_config.resume, group, judge)
    finally:
        if writes:
            store.close_workspace(output_dir)


class Session(Callback):
    """One call of ``Trainer.train()`` on several ranks: a context for the Trainer's loop.

    It has many attributes because it holds each part that begins and ends with training.

    Args:
        trainer: The Trainer.
        origin: Of which training the checkpoint is that it resumes from; None if from none.
        deferring: As of ``Writer``, for ``async_save``.

    Attributes:
        writer: Writes its checkpoints.
        preemption: Signals that ask for the end of training.
        step: The data-parallel step, once the loop was begun.
        meter: Measures time, waiting and slow ranks; the same.

    Raises:
        DataParallelError: If a checkpoint of another training cannot be written to.
    """

    def __init__(self, trainer, origin: Origin | None, deferring: Deferring):
        self._trainer, self._collective = trainer, current()
        self._config = config = trainer.data_parallel_config
        if origin:
            trainer.data_parallel_training.adopt(origin)
        if trainer.args.should_save:
            trainer.data_parallel_training.take_over()
        self.writer = Writer(deferring if config.async_save else None)
        self.preemption = Preemption()
        self.step: Step | None = None
        self.meter: Meter | None = None
        self._callbacks, self._newest = [], None
        self._status = show_status(self._collective.rank)
        self._profiler = StepProfiler(self._collective, config, trainer.args.output_dir)
        self._patches = Patches()
        self._patches.replace(trainer, "data_parallel_session", self)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self._end()
        finally:
            self.close()

    def average(self, door: Door, num_rows: int, *callbacks: Any) -> None:
        """Make the replicas equal, and average from now on. All ranks must call it, right before the loop.

        Args:
            door: The Trainer.
            num_rows: Of a rank's micro-step.
            callbacks: Those of its room, which come before all others.
        """
        profiler, self._num_rows = self._profiler, num_rows
        self.step = Step(door, self._collective, self._config, self._patches, profiler.collective, profiler.begin_phase)
        self.meter = Meter(self._trainer.model, self._collective, self._config, self.step)
        self._callbacks = [*callbacks, self, self.meter, profiler, ScheduleLength(self._collective), BestIsHere()]
        self._trainer.callback_handler.callbacks[:0] = self._callbacks

    def on_train_begin(self, args, state, control, **kwargs):
        """Show the launcher which step begins."""
        self._status.begin_step(state.global_step + 1)

    on_step_begin = on_train_begin

    def write_checkpoint(
        self, output_dir: str, save: Callable[[Path, Path], None], record: dict[str, Any], rotate: Callable[[], None]
    ) -> None:
        """Write a checkpoint of now, whole or not at all. All ranks must call it.

        Args:
            output_dir: The folder of checkpoints.
            save: Lets the Trainer save; is given the folder to which it does, and the one as which that ends.
            record: What ``store.read_published`` is to return.
            rotate: Removes old ones.
        """
        trainer, writes = self._trainer, self._trainer.args.should_save
        self.step.check_replicas()
        self.step.reducer.release()  # gradients of the last step, whose memory saving can use
        self._newest = target = Path(output_dir, f"checkpoint-{trainer.state.global_step}")

        def save_to(written):
            with replaced(trainer, "_get_output_dir", lambda *args, **kwargs: str(written.parent)):
                save(written, target)
            if writes:
                trainer.state.save_to_json(str(written / store.STATE))

        self.writer.write(target, writes, save_to, record, rotate)
        self._collective.barrier()

    def stop_if_agreed(self) -> None:
        """Where a checkpoint of now was written: end this process, if ranks have agreed on a signal.

        Raises:
            Preempted: If they have.
        """
        if self.preemption.agreed is not None:
            self.writer.wait()
            self.preemption.stop(self._trainer.state.global_step, str(self._newest))

    def close(self) -> None:
        """Leave Trainer, model and optimizer as they were found."""
        self.writer.abandon()
        self.preemption.end()
        for callback in self._callbacks:
            self._trainer.callback_handler.callbacks.remove(callback)
        if self.step:
            self.step.close()
        self._patches.undo()

    def _end(self):
        """All ranks must call it: one that leaves early makes a collective of its peers fail."""
        arguments = self._trainer.args
        self.step.check_replicas()
        if self.step.shared:
            self.step.shared.require_unread()
        self.writer.wait()
        if arguments.should_save:
            self._trainer.data_parallel_training.end()
        micro_batch = self._num_rows * self._collective.world_size
        self.meter.end(arguments, micro_batch * arguments.gradient_accumulation_steps)
        self._collective.barrier()
