"""What times the phases of steps, if a setting asks for it, as one callback."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.trainers.observe.profile import StepProfiler
from mindnlp_dp_plugin.trainers.observe.trace import reading
from mindnlp_dp_plugin.trainers.observe.traced_steps import StepTracer


class Tracers:
    """A trace, a profile, both or none. All ranks must make it.

    Args:
        collective: The ranks that train together.
        config: The settings; ``trace`` and ``profile`` count.
        output_dir: Where a profile is written.

    Attributes:
        collective: The same ranks; all-reduces through it are timed.
    """

    def __init__(self, collective: Collective, config: DataParallelConfig, output_dir: str):
        self.collective, self._tracers, self._num_steps = collective, [], 0
        if config.trace:
            self._take(StepTracer(self.collective, Path(config.trace)))
        if config.profile:
            self._take(StepProfiler(self.collective, Path(output_dir), *config.profile))

    def begin_phase(self, name: str) -> None:
        """A phase of the step begins."""
        for tracer in self._tracers:
            tracer.begin_phase(name)

    def reading(self, batches: Iterable) -> Iterator:
        """The same batches; while one is read, that is the phase."""
        return reading(batches, self.begin_phase) if self._tracers else iter(batches)

    def on_train_begin(self, args, state, control, **kwargs):
        """The first step begins."""
        self._tell()

    def on_step_end(self, args, state, control, **kwargs):
        """Another step is done."""
        self._num_steps += 1
        self._tell()

    def on_train_end(self, args, state, control, **kwargs):
        """End what has not come to its end."""
        for tracer in self._tracers:
            tracer.end(self._num_steps)

    def _take(self, tracer):
        self.collective = tracer.collective
        self._tracers.append(tracer)

    def _tell(self):
        for tracer in self._tracers:
            tracer.at_step(self._num_steps)
