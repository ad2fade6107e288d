"""Measure time, waiting and memory of training, and print a summary at the end."""

import logging
import resource
import time

import mindspore

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.job.rank_status import note_training
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.step import Step
from mindnlp_dp_plugin.trainers.observe.stragglers import StragglerMonitor
from mindnlp_dp_plugin.trainers.observe.work import Work

MEGABYTE = 2**20


class Stopwatch:
    """Counts optimizer steps and the time they take; evaluations and saves stop the watch.

    Attributes:
        num_steps: Optimizer steps since training began.
    """

    num_steps = 0
    _zero = _left_training = 0.0

    def on_train_begin(self, args, state, control, **kwargs):
        """Start counting."""
        self.num_steps = 0
        self._zero = self._left_training = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        """Count the step, and stop the watch: an evaluation or a save may follow."""
        self.num_steps += 1
        self._left_training = time.perf_counter()

    def on_epoch_end(self, args, state, control, **kwargs):
        """Stop the watch: an evaluation or a save may follow."""
        self._left_training = time.perf_counter()

    def on_evaluate(self, args, state, control, **kwargs):
        """Leave its time out."""
        self._leave_out()

    def on_save(self, args, state, control, **kwargs):
        """Leave its time out."""
        self._leave_out()

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        return time.perf_counter() - self._zero

    def _leave_out(self):
        now = time.perf_counter()
        self._zero += now - self._left_training
        self._left_training = now


class Meter(Stopwatch):
    """A stopwatch that also measures how long ranks waited for each other, and what they computed.

    Args:
        collective: The ranks that train together.
        step: Averages this rank's gradients.
        stragglers: Compares what ranks take for their own work.
        work: What they compute.

    Attributes:
        stragglers: The same.
        work: The same.
        waited_seconds: For each rank, the seconds it has waited for all-reduces, when ``gather`` was last called.
    """

    def __init__(self, collective: Collective, step: Step, stragglers: StragglerMonitor, work: Work):
        self._collective = collective
        self._step = step
        self.stragglers = stragglers
        self.work = work
        self.waited_seconds = [0.0] * collective.world_size

    def gather(self) -> None:
        """Update ``waited_seconds`` and the work of all ranks. All ranks must call it."""
        of_ranks = self._collective.all_gather_object(
            (self._step.waited_seconds, self.work.own()), Message("seconds of waiting, and what was computed")
        )
        self.waited_seconds = [waited for waited, _ in of_ranks]
        self.work.gathered([amount for _, amount in of_ranks])

    def summary(self, global_batch: int) -> str:
        """A summary of this training in a few lines, the same on all ranks. All ranks must call it.

        Args:
            global_batch: Rows in an optimizer step over all ranks.
        """
        seconds = self._left_training - self._zero  # what came after the last step was not training
        self.gather()
        memory = self._collective.all_gather_object(peak_memory(), Message("peaks of memory"))
        world_size, num_steps = self._collective.world_size, self.num_steps
        samples_per_second = global_batch * num_steps / seconds
        lines = [
            tr(
                "Trained on {ranks} ranks: {steps} steps of {rows} rows (global batch) in {seconds:.1f} s, "
                "{seconds_per_step:.4g} s per step, evaluations and saves not counted",
                ranks=world_size,
                steps=num_steps,
                rows=global_batch,
                seconds=seconds,
                seconds_per_step=seconds / num_steps,
            ),
            tr(
                "samples per second: {all:.4g}, per rank {one:.4g}",
                all=samples_per_second,
                one=samples_per_second / world_size,
            ),
            *self.work.summary(seconds, world_size),
            tr(
                "waiting for communication, rank by rank: {shares}",
                shares=", ".join(f"{waited / seconds:.1%}" for waited in self.waited_seconds),
            ),
            tr(
                "peak memory in MB, rank by rank: {peaks}",
                peaks=", ".join(f"{peak / MEGABYTE:.0f}" for peak in memory),
            ),
        ]
        if self._collective.rank == 0:
            measured = {"steps": num_steps, "seconds": seconds, "samples_per_second": samples_per_second}
            note_training({"ranks": world_size, **measured, **self.work.numbers(seconds)})
        return "\n  ".join(lines) + self.stragglers.summary()


def peak_memory() -> int:
    """Peak memory of this process in bytes: of the device on Ascend, of the host on CPU."""
    if mindspore.get_context("device_target") == "Ascend":
        return mindspore.runtime.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def is_wanted(args) -> bool:
    """Whether this process shows the summary: rank 0 of several, unless ``log_level`` is above warning."""
    leads = args.world_size > 1 and args.process_index == 0
    return leads and args.get_process_log_level() <= logging.WARNING
