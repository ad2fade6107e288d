"""Measure time, waiting and memory of training, and print a summary at the end."""

import logging
import time

import mindspore

from mindnlp_dp_plugin.collectives import Collective, current
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.job import hardware
from mindnlp_dp_plugin.job.rank_status import TRAINING, note
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.step import Step
from mindnlp_dp_plugin.trainers.observe.callback import Callback
from mindnlp_dp_plugin.trainers.observe.stragglers import StragglerMonitor
from mindnlp_dp_plugin.trainers.observe.work import Work

MEGABYTE = 2**20


class Meter(Callback):
    """Measures how long steps take, how long ranks wait for each other, and what they compute. All ranks must make it.

    Evaluations and saves stop the watch.

    Args:
        model: What is trained.
        collective: The ranks that train together.
        config: The settings.
        step: Averages this rank's gradients; None where MindNLP's own Trainer trains alone.

    Attributes:
        num_steps: Optimizer steps since training began.
        work: What ranks compute.
        waited_seconds: For each rank, the seconds it has waited for all-reduces, when ``gather`` was last called.
        stragglers: Compares what ranks take for their own work.
        grad_norm: The norm of the last gradients that were clipped, if ``listen_to_clipping`` was called.
    """

    def __init__(self, model, collective: Collective, config: DataParallelConfig, step: Step | None = None):
        self._collective, self._step = collective, step
        self.num_steps = 0
        self._zero = self._left_training = time.perf_counter()
        self.work = Work(model, collective, config)
        self.waited_seconds = [0.0] * collective.world_size
        self.stragglers = StragglerMonitor(collective)
        self.grad_norm = None

    def listen_to_clipping(self, utils, patches) -> None:
        """Keep the norm that MindNLP's clipping returns and its Trainer discards; it stays on the device.

        Args:
            utils: The module with the ``clip_grad_norm_`` that the loop calls.
            patches: Restores it.
        """

        def clip_grad_norm_(stock, *args, **kwargs):
            self.grad_norm = stock(*args, **kwargs)
            return self.grad_norm

        patches.stand_in(utils, clip_grad_norm_)

    def on_train_begin(self, args, state, control, **kwargs):
        """Start the watch."""
        self._zero = self._left_training = time.perf_counter()
        self.begin_step()

    def begin_step(self) -> None:
        """The rank's own work begins: what is logged, evaluated and saved is done."""
        self._began = time.perf_counter() - self._waited

    def on_step_end(self, args, state, control, **kwargs):
        """Count the step, and stop the watch: an evaluation or a save may follow."""
        self.num_steps += 1
        self._left_training = time.perf_counter()
        if self._step:
            self.stragglers.add(self._left_training - self._waited - self._began, state.global_step)

    def on_epoch_end(self, args, state, control, **kwargs):
        """Stop the watch: an evaluation or a save may follow."""
        self._left_training = time.perf_counter()

    def on_evaluate(self, args, state, control, **kwargs):
        """Leave its time out."""
        now = time.perf_counter()
        self._zero += now - self._left_training
        self._left_training = now

    on_save = on_evaluate

    def on_log(self, args, state, control, **kwargs):
        """In one process nobody else gathers, and no rank waits."""
        if self._step is None:
            self.gather()

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        return time.perf_counter() - self._zero

    @property
    def _waited(self):
        return self._step.waited_seconds if self._step else 0.0

    def gather(self) -> None:
        """Update ``waited_seconds`` and the work of all ranks. All ranks must call it."""
        purpose = Message("seconds of waiting, and what was computed")
        of_ranks = self._collective.all_gather_object((self._waited, self.work.own()), purpose)
        self.waited_seconds = [waited for waited, _ in of_ranks]
        self.work.gathered([amount for _, amount in of_ranks])

    def end(self, args, global_batch: int) -> None:
        """Sum this training up in a few lines, on rank 0 of several. All ranks must call it.

        Args:
            args: The ``TrainingArguments``; a ``log_level`` above warning wants no summary.
            global_batch: Rows in an optimizer step over all ranks.
        """
        if self.num_steps == 0:
            return
        seconds = self._left_training - self._zero  # what came after the last step was not training
        self.gather()
        memory = self._collective.all_gather_object(peak_memory(), Message("peaks of memory"))
        if self._collective.rank:
            return
        ranks, steps, speed = self._collective.world_size, self.num_steps, global_batch * self.num_steps / seconds
        shares = ", ".join(f"{waited / seconds:.1%}" for waited in self.waited_seconds)
        lines = [
            tr(
                "Trained on {ranks} ranks: {steps} steps of {rows} rows (global batch) in {seconds:.1f} s, "
                "{seconds_per_step:.4g} s per step, evaluations and saves not counted",
                ranks=ranks,
                steps=steps,
                rows=global_batch,
                seconds=seconds,
                seconds_per_step=seconds / steps,
            ),
            tr("samples per second: {all:.4g}, per rank {one:.4g}", all=speed, one=speed / ranks),
            *self.work.summary(seconds, ranks),
            tr("waiting for communication, rank by rank: {shares}", shares=shares),
            tr(
                "peak memory in MB, rank by rank: {peaks}",
                peaks=", ".join(f"{peak / MEGABYTE:.0f}" for peak in memory),
            ),
            *self.stragglers.summary(),
        ]
        measured = {"ranks": ranks, "steps": steps, "seconds": seconds, "samples_per_second": speed}
        note(TRAINING, measured | self.work.numbers(seconds))
        if ranks > 1 and args.get_process_log_level() <= logging.WARNING:
            print("\n  ".join(lines + [self._step.shared_out] * bool(self._step.shared_out)))


def peak_memory() -> int:
    """Peak memory of this process in bytes: of the device on Ascend, of the host on CPU, without other ranks' there."""
    if mindspore.get_context("device_target") == "Ascend":
        return mindspore.runtime.max_memory_allocated()
    return hardware.peak_memory() - current().borrowed_bytes
