"""Track training by TensorBoard, Weights & Biases or SwanLab: one callback, and a writer for each (``writers.py``)."""

import numbers
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.trainers.observe.callback import Callback
from mindnlp_dp_plugin.trainers.observe.throughput import Meter
from mindnlp_dp_plugin.trainers.observe.work import Amount
from mindnlp_dp_plugin.trainers.observe.writers import SwanLabWriter, TensorBoardWriter, WandbWriter, Writer

SPLITS = ("eval", "test")


class Tracker(Callback):
    """Writes on rank 0, whenever MindNLP's Trainer logs.

    ``TensorBoardCallback`` says which series there are. Steps that do not log compute nothing and copy nothing to the
    host.

    Args:
        writer: Where to.

    Attributes:
        meter: What measures this training; None outside.
    """

    def __init__(self, writer: Writer):
        self._writer, self.meter, self._settings, self._last_steps = writer, None, {}, {}

    def follow(self, meter: Meter, config: DataParallelConfig | None = None) -> None:
        """Write what a meter measures, until ``leave``.

        Args:
            meter: Of this training.
            config: The settings of ranks, to be noted.
        """
        self.meter, self._settings = meter, {"data_parallel_config": asdict(config)} if config else {}

    def leave(self) -> None:
        """Finish what is written. Called when training ends, also by an error."""
        self.meter = None
        self._writer.close()

    def on_train_begin(self, args, state, control, **kwargs):
        """Begin, with the settings."""
        self._logged = 0, 0.0, 0.0, Amount()
        self._last_steps = {}
        if state.is_world_process_zero:
            self._writer.begin(args, state, {"args": args.to_dict(), **self._settings})

    def on_log(self, args, state, control, logs=None, train_dataset=None, **kwargs):
        """Write what was logged."""
        if not state.is_world_process_zero:
            return
        values = {_tag(name): value for name, value in logs.items() if name != "epoch"}
        if "loss" in logs:
            values["train/epoch"] = logs["epoch"]
            if self.meter:
                values |= self._since_last_log(args, train_dataset)
        new = {
            tag: value
            for tag, value in values.items()
            if isinstance(value, numbers.Real) and state.global_step > self._last_steps.get(tag, -1)
        }
        self._last_steps |= dict.fromkeys(new, state.global_step)
        self._writer.write(new, args, state)
        if not self.meter:  # an evaluation outside training
            self._writer.close()

    def on_train_end(self, args, state, control, **kwargs):
        """Finish what is written."""
        self.leave()

    def _since_last_log(self, args, train_dataset):
        meter, (logged_steps, logged_seconds, logged_wait, logged_work) = self.meter, self._logged
        num_steps, seconds = meter.num_steps - logged_steps, meter.seconds
        if num_steps == 0:  # as at the end of an epoch that the resumed checkpoint had all steps of
            return {}
        wait, took = sum(meter.waited_seconds) / len(meter.waited_seconds), seconds - logged_seconds
        rows = train_dataset.get_batch_size() * args.gradient_accumulation_steps * args.world_size * num_steps
        values = {
            "samples_per_second": rows / took,
            "communication_wait_seconds": (wait - logged_wait) / num_steps,
            **meter.work.numbers(took, logged_work),
            "slowest_rank": meter.stragglers.slowest,
            "grad_norm": meter.grad_norm if meter.grad_norm is None else meter.grad_norm.item(),
        }
        self._logged = meter.num_steps, seconds, wait, meter.work.of_ranks
        return {f"train/{name}": value for name, value in values.items()}


class TensorBoardCallback(Tracker):
    """Writes TensorBoard files on rank 0, whenever the Trainer logs: ``Trainer(callbacks=[TensorBoardCallback()])``.

    One series for each tag, by optimizer step:

    - ``train/<name>`` for each number the Trainer logs: ``loss``, ``learning_rate``, ``epoch`` and, at the end,
      ``train_runtime`` and its like. ``eval/<metric>`` for evaluations, ``test/<metric>`` for those with that prefix.
    - ``train/grad_norm``: of the averaged gradients of the last step, before clipping, as clipping computes it. With
      ``max_grad_norm=0`` nothing is clipped, and there is no such series.
    - ``train/samples_per_second``: over all ranks, since the last log; evaluations and saves do not count.
    - ``train/communication_wait_seconds``: how long a rank waited in a step for all-reduces after backward, the mean
      over the steps since the last log and over all ranks; 0 in one process.
    - ``train/slowest_rank``: what the slowest rank took for its own work in the last 50 steps, in times of the median.
    - As texts, ``args`` and, on several ranks, ``data_parallel_config``.

    Steps that do not log compute nothing and copy nothing to the host. A resumed run continues in the same folder; what
    the interrupted run wrote after its checkpoint is hidden.

    Args:
        log_dir: The folder. If None, ``TrainingArguments.logging_dir``; if that is the default, which is named after
            the time, a resumed run takes the newest folder beside it.

    Raises:
        DataParallelError: If tensorboardX is not installed.

    Examples:
        >>> Trainer(model, arguments, train_dataset=rows, callbacks=[dp.TensorBoardCallback("tensorboard")]).train()
    """

    def __init__(self, log_dir: str | Path | None = None):
        super().__init__(TensorBoardWriter(log_dir))


class WandbCallback(Tracker):
    """Tracks training with Weights & Biases: ``Trainer(callbacks=[WandbCallback()])``.

    The series are those of ``TensorBoardCallback``. It writes to a folder and sends nothing, unless
    ``WANDB_MODE=online`` is set or ``mode="online"`` is given; ``wandb sync`` sends a folder later.
    A resumed run is a run of its own.

    Args:
        folder: Gets a folder ``wandb``. Default: the Trainer's output folder.
        **settings: Keywords of ``wandb.init``, such as ``project`` and ``name``.

    Raises:
        DataParallelError: If wandb is not installed.

    Examples:
        >>> Trainer(model, arguments, train_dataset=rows, callbacks=[dp.WandbCallback(project="reviews")]).train()
    """

    def __init__(self, folder: str | Path | None = None, **settings: Any):
        super().__init__(WandbWriter(folder, settings))


class SwanLabCallback(Tracker):
    """Tracks training with SwanLab: ``Trainer(callbacks=[SwanLabCallback()])``.

    The series are those of ``TensorBoardCallback``. It writes to a folder and sends nothing, unless
    ``SWANLAB_MODE=cloud`` is set or ``mode="cloud"`` is given; ``swanlab sync`` sends a folder later.
    A resumed run is a run of its own.

    Args:
        folder: Gets a folder for each run. Default: the Trainer's output folder.
        **settings: Keywords of ``swanlab.init``, such as ``project`` and ``experiment_name``.

    Raises:
        DataParallelError: If swanlab is not installed.

    Examples:
        >>> Trainer(model, arguments, train_dataset=rows, callbacks=[dp.SwanLabCallback(project="reviews")]).train()
    """

    def __init__(self, folder: str | Path | None = None, **settings: Any):
        super().__init__(SwanLabWriter(folder, settings))


def trackers_of(trainer) -> list[Tracker]:
    """Those among the callbacks of MindNLP's Trainer."""
    return [callback for callback in trainer.callback_handler.callbacks if isinstance(callback, Tracker)]


def _tag(name):
    split, _, rest = name.partition("_")
    return f"{split}/{rest}" if split in SPLITS else f"train/{name}"
