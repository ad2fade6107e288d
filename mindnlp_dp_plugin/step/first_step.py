"""Says so if the first optimizer step changes nothing."""

import logging
from collections.abc import Callable

from mindnlp_dp_plugin.ddp.replicas import digest
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.optim.parameters import stepped_parameters
from mindnlp_dp_plugin.optim.watched import WatchedSteps

logger = logging.getLogger(__name__)


class FirstStep:
    """Compares what the optimizer steps before and after its first step with a learning rate above 0.

    Args:
        door: Has the ``optimizer``.
        steps: What happens around the optimizer's steps.
        digests: Returns those of all that is stepped; None to take the parameters'.
    """

    def __init__(self, door, steps: WatchedSteps, digests: Callable[[], list] | None = None):
        self._door = door
        self._steps = steps
        self._digests = digests or self._of_parameters
        self._is_over = False
        self._before = None
        steps.before.append(self._begin)
        steps.after.append(self._end)

    def _begin(self):
        rates = [float(group.get("lr", 1)) for group in self._door.optimizer.param_groups]
        if not self._is_over and any(rates) and not self._steps.skips():
            self._before = self._digests()

    def _end(self):
        if self._before is None:
            return
        if self._before == self._digests():
            logger.warning(
                tr(
                    "The first optimizer step changed none of the {count} parameters that are trained: their gradients "
                    "are 0. Look for a loss that does not depend on them, for weights that are all zero, or for "
                    "gradients that are cut off.",
                    count=len(stepped_parameters(self._door.optimizer)),
                )
            )
        self._before, self._is_over = None, True

    def _of_parameters(self):
        return [digest(parameter) for parameter in stepped_parameters(self._door.optimizer)]
