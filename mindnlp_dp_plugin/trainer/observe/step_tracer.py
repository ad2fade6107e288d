"""When a step's phases begin and end, as the Trainer goes through them."""

from pathlib import Path

from mindnlp.engine.callbacks import TrainerCallback

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.trainer.observe.trace import Trace, TracedCollective

WARM_UP_STEPS = 3  # the first compile and allocate, and regroup the buckets
TRACED_STEPS = 4


class StepTracer(TrainerCallback):
    """Traces a few optimizer steps, then writes the file. All ranks have one, or none.

    Args:
        trainer: The Trainer. Its ``compute_loss``, after which backward begins, is listened to until ``close``.
        collective: The ranks that train together.
        path: The file to write.

    Attributes:
        collective: The same ranks; all-reduces through this one are in the trace.
    """

    def __init__(self, trainer, collective: Collective, path: str):
        self.collective = TracedCollective(collective)
        self._trainer = trainer
        self._path = Path(path)
        self._num_steps = 0
        self._compute_loss = trainer.compute_loss
        trainer.compute_loss = self._compute_loss_and_note

    def begin_phase(self, name: str) -> None:
        """What the Trainer does from now on."""
        if self.collective.trace:
            self.collective.trace.begin_phase(name)

    def on_step_end(self, args, state, control, **kwargs):
        """Begin the trace after some steps, and end it after some more."""
        self._num_steps += 1
        if self._num_steps == WARM_UP_STEPS:
            self.collective.trace = Trace(self.collective)
            self.begin_phase("data")
        if self._num_steps == WARM_UP_STEPS + TRACED_STEPS:
            self._write()

    def on_train_end(self, args, state, control, **kwargs):
        """Training was short: write what there is."""
        self._write()

    def close(self) -> None:
        """Leave the Trainer as it was found."""
        self._trainer.compute_loss = self._compute_loss

    def _write(self):
        if self.collective.trace:
            self.begin_phase("end")
            self.collective.trace.write(self._path)
            self.collective.trace = None

    def _compute_loss_and_note(self, *args, **kwargs):
        result = self._compute_loss(*args, **kwargs)
        self.begin_phase("backward")
        return result
