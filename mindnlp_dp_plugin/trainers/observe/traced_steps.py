"""A few optimizer steps whose phases are timed, on all ranks."""

from pathlib import Path

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.trainers.observe.trace import TRAINER, Trace, TracedCollective

WARM_UP_STEPS = 3  # the first compile and allocate, and regroup the buckets
TRACED_STEPS = 4


class StepTracer:
    """Traces a few optimizer steps, then writes the file. Either all ranks have one, or none.

    Args:
        collective: The ranks that train together.
        path: The file to write.
        num_skipped: Optimizer steps before those that are traced.
        num_traced: How many are.

    Attributes:
        collective: The same ranks; all-reduces through it are traced.
    """

    def __init__(
        self,
        collective: Collective,
        path: Path,
        num_skipped: int = WARM_UP_STEPS,
        num_traced: int = TRACED_STEPS,
    ):
        self.collective = TracedCollective(collective)
        self._path, self._first, self._num_traced = path, num_skipped, num_traced

    def begin_phase(self, name: str) -> None:
        """A phase of the step begins."""
        if self.collective.trace:
            self.collective.trace.begin_phase(name)

    def at_step(self, num_steps: int) -> None:
        """So many optimizer steps are done: start the trace, or end it. All ranks must call it."""
        if num_steps == self._first:
            self.collective.trace = Trace(self.collective)
            self.begin_phase(TRAINER)
        if num_steps == self._first + self._num_traced:
            self.end(num_steps)

    def end(self, num_steps: int) -> None:
        """End the trace, also if training ends before it has all steps. All ranks must call it."""
        if self.collective.trace:
            trace, self.collective.trace = self.collective.trace, None
            self.finish(trace, num_steps - self._first)

    def finish(self, trace: Trace, num_traced: int) -> None:
        """Write the trace of so many steps. All ranks must call it."""
        trace.write(self._path)
