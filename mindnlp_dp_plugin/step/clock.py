"""Does the optimizer step next?"""


class Clock:
    """Counts micro-steps, and knows MindNLP's rule for when the optimizer steps.

    That is when the number of micro-steps since training began is a multiple of the accumulation, or at the end of an
    epoch that is no longer than the accumulation.

    Args:
        accumulation: Micro-steps of an optimizer step.
        steps_per_epoch: Micro-steps of an epoch on each rank; None if that is not known.
        begun: Micro-steps done before this run.
        begun_in_epoch: Those of them in the current epoch.

    Attributes:
        micro_steps: Micro-steps done since training first began.
        micro_steps_in_epoch: Those of them in the current epoch.
        begins_optimizer_step: Whether the current or next micro-step is the first of an optimizer step.
    """

    def __init__(self, accumulation: int, steps_per_epoch: int | None, begun: int = 0, begun_in_epoch: int = 0):
        self._accumulation = accumulation
        self._steps_per_epoch = steps_per_epoch
        self._begun = self.micro_steps = begun
        self.micro_steps_in_epoch = begun_in_epoch
        self.begins_optimizer_step = True

    @property
    def optimizer_steps_next(self) -> bool:
        """Whether the optimizer steps after the current micro-step."""
        accumulation, num_steps = self._accumulation, self._steps_per_epoch
        is_short = num_steps is not None and num_steps <= accumulation
        ends_epoch = self.micro_steps_in_epoch + 1 == num_steps
        return (is_short and ends_epoch) or (self.micro_steps - self._begun + 1) % accumulation == 0

    @property
    def micro_steps_left(self) -> int:
        """Micro-steps up to that after which the optimizer steps, if the epoch has as many."""
        left = self._accumulation - (self.micro_steps - self._begun) % self._accumulation
        if self._steps_per_epoch is not None and self._steps_per_epoch <= self._accumulation:
            return min(left, self._steps_per_epoch - self.micro_steps_in_epoch)
        return left

    def begin_epoch(self, micro_steps: int = 0) -> None:
        """An epoch begins, of which this many micro-steps are done."""
        self.micro_steps_in_epoch = micro_steps

    def end_micro_step(self) -> None:
        """The current micro-step is done."""
        self.begins_optimizer_step = self.optimizer_steps_next
        self.micro_steps += 1
        self.micro_steps_in_epoch += 1
