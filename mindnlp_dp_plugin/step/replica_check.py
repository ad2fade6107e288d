"""Compares what the ranks have stepped to, while they train."""

from collections.abc import Callable
from typing import Any

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.replicas import check_parameters
from mindnlp_dp_plugin.optim.parameters import parameters_outside
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.port import Door


class ReplicaCheck:
    """Compares the parameters of all ranks after the first step, after every so many, and whenever it is called.

    Args:
        door: The loop.
        collective: The ranks that train together.
        every: After how many steps, as ``DataParallelConfig.check_replicas_every``; 0 for never.
        steps: What happens around the optimizer's steps.
        is_shared_out: Whether of a parameter each rank keeps another part, so that there is nothing to compare.

    Attributes:
        also: What else is compared whenever parameters are.
    """

    def __init__(
        self,
        door: Door,
        collective: Collective,
        every: int | None,
        steps: WatchedSteps,
        is_shared_out: Callable[[Any], bool],
    ):
        self._is_shared_out = is_shared_out
        self._door = door
        self._collective = collective
        self._every = every
        self._checked_step = None
        self.also: list[Callable[[], None]] = []
        if every != 0:
            steps.after.append(self._end_step)

    def __call__(self, anew: bool = False) -> None:
        """Raise if ranks hold different parameters, unless they were compared after this step, or never are to be.

        All ranks must call it.

        Args:
            anew: Whether to compare them again after the same step: something else than a step may have changed them.

        Raises:
            DataParallelError: Naming the first that differs.
        """
        if anew:
            self._checked_step = None
        self._check(self._door.num_steps)

    def _end_step(self):
        step = self._door.num_steps + 1  # the loop counts it later
        if self._checked_step is None or (self._every and step % self._every == 0):
            self._check(step)

    def _check(self, step):
        if self._every != 0 and step != self._checked_step:
            outside = parameters_outside(self._door.model, self._door.optimizer)
            named = [*self._door.model.named_parameters(), *outside.items()]
            check_parameters([each for each in named if not self._is_shared_out(each[1])], self._collective, step)
            self._checked_step = step
            for compare in self.also:
                compare()
