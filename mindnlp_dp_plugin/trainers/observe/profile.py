"""Where a few steps go, on each rank: the phases on a page and as a trace, and what MindSpore's own Profiler sees.

The phases are timed first, and as many steps later MindSpore's Profiler runs, which slows steps down.
"""

import json
import logging
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import mindspore
from mindspore import profiler

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.trainers.observe.callback import Callback, needed
from mindnlp_dp_plugin.trainers.observe.timed_sums import TimedSums

logger = logging.getLogger(__name__)

FOLDER = "profile"
PAGE, NUMBERS, TRACE = "profile.html", "phases.json", "trace.json"
STEP_LANE, SUMS_LANE = "step", "all-reduce"
DATA, TRAINER = "data", "trainer"
MICROSECONDS = 1e6


class StepProfiler(Callback):
    """Profiles a few optimizer steps into a folder, if the setting ``profile`` says so. All ranks must make it.

    Rank 0 writes ``profile.html``, ``phases.json`` (seconds of a step by rank and phase) and ``trace.json``, the same
    steps in Chrome's Trace Event Format for ui.perfetto.dev: for each rank a lane of phases, and one of the buckets on
    their way. Over the next steps, MindSpore's Profiler writes to ``rank<r>`` on each rank.

    On Ascend, which computes while the host goes on, each phase waits for what it has launched, so that the times are
    those of the device; steps are slower meanwhile.

    Args:
        collective: The ranks that train together.
        config: The settings.
        output_dir: Gets the folder ``profile``.

    Attributes:
        collective: The same ranks; sums of gradients through it are timed.

    Raises:
        DataParallelError: If there is nothing to draw the page with.
    """

    def __init__(self, collective: Collective, config: DataParallelConfig, output_dir: str):
        self.collective, self._folder = collective, Path(output_dir, FOLDER)
        self._num_steps, self._is_timing, self._running = 0, False, None
        self._first, self._num_profiled = config.profile or (None, 0)
        if config.profile:
            for library in ("matplotlib", "jinja2"):
                needed(library, "profile", "'mindnlp-dp-plugin[tracking]'")
            from mindnlp_dp_plugin.trainers.observe import profile_page

            self._draws = profile_page  # not imported while steps are timed
            self.collective = TimedSums(collective)
        self._is_on_device = mindspore.get_context("device_target") != "CPU"

    def begin_phase(self, name: str | None) -> None:
        """A phase of the step begins, or none."""
        if not self._is_timing:
            return
        if self._is_on_device:
            mindspore.runtime.synchronize()
        now = time.perf_counter()
        if self._phase:
            self._note(STEP_LANE, *self._phase, now)
        self._phase = name and (name, now)

    def reading(self, batches: Iterable) -> Iterator:
        """The same batches; while one is read, that is the phase."""
        self.begin_phase(DATA)
        for batch in batches:
            self.begin_phase(TRAINER)
            yield batch
            self.begin_phase(DATA)
        self.begin_phase(TRAINER)

    def on_train_begin(self, args, state, control, **kwargs):
        """The first step begins."""
        self._begin_if_due()

    def on_step_end(self, args, state, control, **kwargs):
        """Another step is done."""
        self._num_steps += 1
        if self._running:
            self._try(self._running.step)
        if self._first is not None:
            num_done = self._num_steps - self._first
            if num_done == self._num_profiled:
                self._write()
                self._try(self._run_mindspores)
            if num_done == 2 * self._num_profiled:
                self._stop_mindspores()
            self._begin_if_due()

    def on_train_end(self, args, state, control, **kwargs):
        """End what has not come to its end."""
        self._write()
        self._stop_mindspores()

    def _begin_if_due(self):
        if self._num_steps == self._first:
            self.collective.barrier()  # the clocks of all ranks begin
            self._zero, self._phase, self._events, self._is_timing = time.perf_counter(), None, [], True
            self.collective.note = self._note_sum
            self.begin_phase(TRAINER)

    def _note_sum(self, num_bytes, begin, end):
        self._note(SUMS_LANE, f"{num_bytes / 2**20:.2f} MB", begin, end, bytes=num_bytes)

    def _note(self, lane, name, begin, end, **details):
        times = {"ts": (begin - self._zero) * MICROSECONDS, "dur": (end - begin) * MICROSECONDS}
        event = {"name": name, "ph": "X", "pid": self.collective.rank, "tid": lane, **times, "args": details}
        self._events.append(event)

    def _write(self):
        if not self._is_timing:
            return
        self.begin_phase(None)
        self._is_timing, self.collective.note = False, None
        everyone = self.collective.all_gather_object(self._events, Message("traces of a step"))
        num_steps = self._num_steps - self._first
        if num_steps == 0 or self.collective.rank:
            return
        phases = [self._draws.phases_of(events, num_steps) for events in everyone]
        names = [
            {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}}
            for rank in range(len(everyone))
        ]
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / TRACE).write_text(json.dumps({"traceEvents": sum(everyone, names)}))
        (self._folder / NUMBERS).write_text(json.dumps({"steps": num_steps, "ranks": phases}, indent=2))
        (self._folder / PAGE).write_text(self._draws.page(phases, everyone, num_steps), encoding="utf-8")
        where = {"first": self._first + 1, "last": self._num_steps, "path": self._folder / PAGE}
        logger.warning(tr("where the time of steps {first} to {last} goes: {path}", **where))

    def _run_mindspores(self):
        activities = [profiler.ProfilerActivity.CPU] + [profiler.ProfilerActivity.NPU] * self._is_on_device
        self._folder.mkdir(parents=True, exist_ok=True)
        handler = profiler.tensorboard_trace_handler(str(self._folder / f"rank{self.collective.rank}"))
        self._running = profiler.profile(activities=activities, start_profile=False, on_trace_ready=handler)
        self._running.start()

    def _stop_mindspores(self):
        if self._running:
            running, self._running = self._running, None
            self._try(running.stop)

    def _try(self, call):
        """Training goes on without MindSpore's Profiler, and says why."""
        try:
            call()
        except Exception as error:
            self._running = None
            logger.warning(tr("MindSpore's Profiler failed, and training goes on without it: {error}", error=error))
