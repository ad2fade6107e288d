"""Tell Ray how training goes: ``Trainer(callbacks=[RayReportCallback()])``."""

import numbers
import time
from pathlib import Path

import ray.train
from ray.train import Checkpoint

from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.ray import worker
from mindnlp_dp_plugin.ray.checkpoints import OUTPUT_DIR, STEP
from mindnlp_dp_plugin.trainers.observe.callback import Callback

READS_EVERY_S = 2  # Ray, and it holds one report: a rank that reports more often waits
DUE = Message("whether Ray gets a report")


class RayReportCallback(Callback):
    """Reports metrics to Ray whenever the Trainer logs or evaluates, and each checkpoint that it writes.

    A report holds the newest value of all that was logged (``loss``, ``learning_rate``, ``eval_...``), ``epoch``,
    ``step`` and ``samples_per_second``: rows of all ranks since the report before, without the time for evaluation and
    saving. A checkpoint is the whole folder, as in ``output_dir``; ``result.checkpoint`` is the newest, from which the
    same run goes on. What is logged within two seconds after a report waits for the next one, as Ray would hold up the
    ranks.

    Raises:
        DataParallelError: With ``async_save``: Ray would get a checkpoint that is not written yet.

    Examples:
        >>> Trainer(model, arguments, train_dataset=rows, callbacks=[RayReportCallback()]).train()
    """

    def __init__(self):
        self._metrics = {}
        self._seconds = 0.0
        self._rows = 0

    def on_train_begin(self, args, state, control, **kwargs):
        """Begin to measure."""
        _require_ray()
        self._metrics, self._seconds, self._rows = {OUTPUT_DIR: str(Path(args.output_dir))}, 0.0, 0
        self._reported_at = self._resumed_at = time.monotonic()

    def on_step_end(self, args, state, control, train_dataset=None, **kwargs):
        """Count the step's rows and its time."""
        has_batches = hasattr(train_dataset, "get_batch_size")
        batch = train_dataset.get_batch_size() if has_batches else args.per_device_train_batch_size
        self._rows += batch * args.gradient_accumulation_steps * current().world_size
        self._seconds += self._lap()

    def on_log(self, args, state, control, logs=None, **kwargs):
        """Report what was logged, unless an evaluation or a checkpoint of the same step follows."""
        self._metrics |= {name: value for name, value in logs.items() if isinstance(value, numbers.Real)}
        if not (control.should_evaluate or control.should_save) and self._is_due():
            self._report(state)

    def on_evaluate(self, args, state, control, metrics=None, **kwargs):
        """Report the scores, unless a checkpoint of the same step follows."""
        self._metrics |= {name: value for name, value in (metrics or {}).items() if isinstance(value, numbers.Real)}
        if not control.should_save:
            self._report(state)
        self._lap()

    def on_save(self, args, state, control, **kwargs):
        """Report the checkpoint."""
        folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
        self._report(state, Checkpoint.from_directory(folder) if args.should_save else None)
        self._lap()

    def on_train_end(self, args, state, control, **kwargs):
        """Report what was not reported yet."""
        if self._metrics.get(STEP) != state.global_step:
            self._report(state)

    def _report(self, state, checkpoint=None):
        self._metrics |= {STEP: state.global_step, "epoch": state.epoch}
        if self._seconds:
            self._metrics["samples_per_second"] = self._rows / self._seconds
            self._rows, self._seconds = 0, 0.0
        ray.train.report(dict(self._metrics), checkpoint=checkpoint)
        self._reported_at = time.monotonic()

    def _is_due(self):
        waited = time.monotonic() - self._reported_at
        return current().all_gather_object(waited >= READS_EVERY_S, DUE)[0]

    def _lap(self):
        before, self._resumed_at = self._resumed_at, time.monotonic()
        return self._resumed_at - before


def _require_ray():
    if worker.joined_with is None:
        raise DataParallelError(
            "RayReportCallback reports to Ray, but this is no worker of a MindNLPTrainer: start it by one, or leave "
            "the callback out."
        )
    if worker.joined_with.async_save:
        raise DataParallelError(
            "async_save with RayReportCallback: Ray would get checkpoints that are still being written. Leave one out."
        )
