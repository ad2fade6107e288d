"""A loop of one's own as the core sees it: the ``Door`` of ``port.py``."""

from mindnlp.core.nn import functional, utils

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.job.rank_status import show_status
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.port import Door
from mindnlp_dp_plugin.step.labels import name_of_labels
from mindnlp_dp_plugin.step.left_out import left_out

FIRST_LOOK = 16  # batches read before the first step, as MindSpore's own data sets prefetch


class LoopClock:
    """Whether the optimizer steps next, only the loop knows: it says so by ``no_sync``.

    Attributes:
        is_syncing: False within ``no_sync``, unless gradients are returned.
        micro_steps: Batches whose gradients were computed.
        begins_optimizer_step: Whether none was since the last step.
    """

    def __init__(self):
        self.is_syncing = True
        self.micro_steps = 0
        self.begins_optimizer_step = True
        self._in_step, self._usual = 0, FIRST_LOOK  # micro-steps of this step, and of the last

    @property
    def micro_steps_left(self) -> int:
        """Micro-steps of this step that follow, if it has as many as the last; the first has perhaps ``FIRST_LOOK``."""
        return max(1, self._usual - self._in_step)

    @property
    def optimizer_steps_next(self) -> bool:
        """Whether it may step: averaging once too often is right, and only slower."""
        return self.is_syncing

    def end_micro_step(self) -> None:
        """Count."""
        self.micro_steps += 1
        self._in_step += 1
        self.begins_optimizer_step = False

    def end_optimizer_step(self) -> None:
        """The optimizer has stepped."""
        self._in_step, self._usual = 0, max(1, self._in_step)
        self.begins_optimizer_step = True


class LoopDoor(Door):
    """A model and its optimizer, in a loop of one's own.

    Args:
        model: What is trained.
        optimizer: What steps it.
        seed: What dropout's streams are drawn from.
        dtype: What forward computes in; None for the model's own.
        collective: The ranks that train together.
    """

    name, utils, functional = "dp.prepare", utils, functional
    averaged_when = Message(
        "A function of mindnlp.core.value_and_grad averages them: make it after `import mindnlp_dp_plugin`, for the "
        "parameters of the optimizer that dp.prepare got, and leave dp.no_sync() before the last batch of a step."
    )
    joins_when = Message("Give the optimizer new parameters right after a step.")

    def __init__(self, model, optimizer, seed: int, dtype, collective: Collective):
        self.model, self.optimizer = model, optimizer
        self.labels = name_of_labels(None, model)
        self.seed, self.dtype = seed, dtype
        self.clock = LoopClock()
        self.num_steps = 0
        self.preemption = None
        self._status = show_status(collective.rank)

    @property
    def leaves_out(self) -> str | None:
        """Those that the model leaves out."""
        return left_out(self.model)

    def count_steps(self, steps: WatchedSteps) -> None:
        """Count the optimizer's steps."""
        steps.after.append(self._end_step)

    def votes(self) -> list[bool]:
        """Signals that ask for the end, if the loop asks for them."""
        return self.preemption.votes() if self.preemption else []

    def count(self, votes) -> None:
        """Take the number of ranks that each signal has come to."""
        if self.preemption:
            self.preemption.count(votes)

    def _end_step(self):
        self.num_steps += 1
        self.clock.end_optimizer_step()
        self._status.begin_step(self.num_steps + 1)
