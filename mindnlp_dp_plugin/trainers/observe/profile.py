"""Where a few steps go, on each rank: the phases on a page, and what MindSpore's own Profiler sees.

The phases are timed first, and as many steps later MindSpore's Profiler runs, which slows steps down.
"""

import json
import logging
from pathlib import Path

import mindspore
from mindspore import profiler

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.trainers.observe.profile_page import PHASES, page
from mindnlp_dp_plugin.trainers.observe.trace import STEP_LANE
from mindnlp_dp_plugin.trainers.observe.traced_steps import StepTracer

logger = logging.getLogger(__name__)

FOLDER = "profile"
PAGE, NUMBERS, TRACE = "profile.html", "phases.json", "trace.json"
MICROSECONDS = 1e6


class StepProfiler(StepTracer):
    """Profiles a few optimizer steps into a folder. Either all ranks have one, or none.

    Rank 0 writes ``profile.html``, ``phases.json`` (seconds of a step by rank and phase) and ``trace.json``; then, over
    the next steps, MindSpore's Profiler writes to ``rank<r>`` on each rank.

    On Ascend, which computes while the host goes on, each phase waits for what it has launched, so that the times are
    those of the device; steps are slower meanwhile.

    Args:
        collective: The ranks that train together.
        output_dir: Gets the folder ``profile``.
        num_skipped: Optimizer steps before.
        num_profiled: Optimizer steps whose phases are timed; as many follow under MindSpore's Profiler.
    """

    def __init__(self, collective: Collective, output_dir: Path, num_skipped: int, num_profiled: int):
        self._folder = output_dir / FOLDER
        super().__init__(collective, self._folder / TRACE, num_skipped, num_profiled)
        self._rank = collective.rank
        self._waits = mindspore.get_context("device_target") != "CPU"
        self._last = num_skipped + 2 * num_profiled
        self._profiler = None

    def begin_phase(self, name: str) -> None:
        """A phase of the step begins."""
        if self.collective.trace and self._waits:
            mindspore.runtime.synchronize()
        super().begin_phase(name)

    def at_step(self, num_steps: int) -> None:
        """So many optimizer steps are done. All ranks must call it."""
        super().at_step(num_steps)
        if self._profiler is not None:
            self._try(self._profiler.step)
        if num_steps == self._first + self._num_traced:
            self._try(self._start)
        if num_steps == self._last:
            self.end(num_steps)

    def end(self, num_steps: int) -> None:
        """End what has not come to its end. All ranks must call it."""
        super().end(num_steps)
        if self._profiler is not None:
            running, self._profiler = self._profiler, None
            self._try(running.stop)

    def finish(self, trace, num_traced):
        """Write the page. All ranks must call it."""
        everyone = trace.write(self._path)
        if num_traced and self._rank == 0:
            phases = [phases_of(events, num_traced) for events in everyone]
            (self._folder / NUMBERS).write_text(json.dumps({"steps": num_traced, "ranks": phases}, indent=2))
            (self._folder / PAGE).write_text(page(phases, everyone, num_traced), encoding="utf-8")
            logger.warning(
                tr("where steps {first} to {last} go: {path}", first=self._first + 1, last=self._first + num_traced,
                   path=self._folder / PAGE)
            )  # fmt: skip

    def _start(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        activities = [profiler.ProfilerActivity.CPU]
        if self._waits:
            activities.append(profiler.ProfilerActivity.NPU)
        handler = profiler.tensorboard_trace_handler(str(self._folder / f"rank{self._rank}"))
        self._profiler = profiler.profile(activities=activities, start_profile=False, on_trace_ready=handler)
        self._profiler.start()

    def _try(self, call):
        """Training goes on without MindSpore's Profiler, and says why."""
        try:
            call()
        except Exception as error:
            self._profiler = None
            logger.warning(tr("MindSpore's Profiler failed, and training goes on without it: {error}", error=error))


def phases_of(events: list[dict], num_steps: int) -> dict[str, float]:
    """Seconds that a step spends in each phase, the mean over steps.

    Args:
        events: Those of a rank's trace.
        num_steps: How many steps they are of.
    """
    seconds = dict.fromkeys(PHASES, 0.0)
    for event in events:
        if event["tid"] == STEP_LANE:
            seconds[event["name"]] += event["dur"] / MICROSECONDS / num_steps
    return seconds
