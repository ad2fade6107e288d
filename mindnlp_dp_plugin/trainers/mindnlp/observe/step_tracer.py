"""Record when a step's phases begin and end."""

from pathlib import Path

from mindnlp.engine.callbacks import TrainerCallback

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.trainers.mindnlp.observe.trace import Trace, TracedCollective

WARM_UP_STEPS = 3  # the first compile and allocate, and regroup the buckets
TRACED_STEPS = 4


class StepTracer(TrainerCallback):
    """Traces a few optimizer steps, then writes the file. Either all ranks have one, or none.

    Args:
        collective: The ranks that train together.
        path: The file to write.

    Attributes:
        collective: The same ranks; all-reduces through it are traced.
    """

    def __init__(self, collective: Collective, path: str):
        self.collective = TracedCollective(collective)
        self._path = Path(path)
        self._num_steps = 0

    def begin_phase(self, name: str) -> None:
        """A phase of the step begins."""
        if self.collective.trace:
            self.collective.trace.begin_phase(name)

    def on_step_end(self, args, state, control, **kwargs):
        """Start the trace after some steps, and end it a few steps later."""
        self._num_steps += 1
        if self._num_steps == WARM_UP_STEPS:
            self.collective.trace = Trace(self.collective)
            self.begin_phase("data")
        if self._num_steps == WARM_UP_STEPS + TRACED_STEPS:
            self._write()

    def on_train_end(self, args, state, control, **kwargs):
        """Write the trace if training ended before it did."""
        self._write()

    def _write(self):
        if self.collective.trace:
            self.begin_phase("end")
            self.collective.trace.write(self._path)
            self.collective.trace = None
