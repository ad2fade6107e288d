"""Record when a step's phases begin and end."""

from pathlib import Path

from mindnlp.engine.callbacks import TrainerCallback

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.patching import Replacements
from mindnlp_dp_plugin.trainers.mindnlp.observe.trace import Trace, TracedCollective
from mindnlp_dp_plugin.trainers.mindnlp.resume.progress import Progress

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

    def install(self, trainer, progress: Progress, steps: WatchedSteps, replacements: Replacements) -> None:
        """Install itself around the Trainer's calls.

        Args:
            trainer: The Trainer that trains.
            progress: Tells whether the optimizer steps after a micro-step.
            steps: Calls functions around the optimizer's steps.
            replacements: Restores the Trainer.
        """

        def training_step(stock, *args, **kwargs):
            self._begin_phase("forward")
            return stock(*args, **kwargs)

        def compute_loss(stock, *args, **kwargs):
            result = stock(*args, **kwargs)
            self._begin_phase("backward")
            return result

        def update_gradient_by_distributed_type(stock, *args, **kwargs):
            self._begin_phase("wait for gradients")
            stock(*args, **kwargs)
            self._begin_phase("clip" if progress.optimizer_steps_next else "data")

        for stand_in in (training_step, compute_loss, update_gradient_by_distributed_type):
            replacements.stand_in(trainer, stand_in)
        steps.before.append(lambda: self._begin_phase("optimizer"))
        steps.after.append(lambda: self._begin_phase("data"))

    def on_step_end(self, args, state, control, **kwargs):
        """Start the trace after some steps, and end it a few steps later."""
        self._num_steps += 1
        if self._num_steps == WARM_UP_STEPS:
            self.collective.trace = Trace(self.collective)
            self._begin_phase("data")
        if self._num_steps == WARM_UP_STEPS + TRACED_STEPS:
            self._write()

    def on_train_end(self, args, state, control, **kwargs):
        """Write the trace if training ended before it did."""
        self._write()

    def _write(self):
        if self.collective.trace:
            self._begin_phase("end")
            self.collective.trace.write(self._path)
            self.collective.trace = None

    def _begin_phase(self, name):
        if self.collective.trace:
            self.collective.trace.begin_phase(name)
