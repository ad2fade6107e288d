"""Names parameters that cannot train: their gradients are 0."""

import logging

from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.optim.parameters import named_parameters
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.step.stepped import listed

logger = logging.getLogger(__name__)

JUDGED = 2  # in the first step, adapters that begin at 0 keep the gradients of what is before them at 0


class CutOff:
    """Looks at the gradients of the first two steps with a learning rate above 0, and says once which are all 0.

    In the first step it is said if all are, in the second if some are. Parameters of layers that are not called are
    left out then: they are unused. With ``zero_stage`` 2 and 3, which leave no gradients, it says nothing.

    Args:
        door: Has the ``model`` and the ``optimizer``.
        steps: What happens around the optimizer's steps.
        patches: Takes the hooks out of the layers, if training ends before.
    """

    def __init__(self, door, steps: WatchedSteps, patches: Patches):
        self._door, self._steps = door, steps
        self._num_steps = 0
        called = self._called = set()
        # A function, which a copy of the model shares: a method would take the whole training along.
        self._hooks = [
            module.register_forward_pre_hook(lambda module, inputs: called.add(id(module)))
            for module in door.model.modules()
            if module._parameters
        ]
        steps.before.append(self._look)
        patches.on_undo(self._remove_hooks)

    def _look(self):
        rates = [float(group.get("lr", 1)) for group in self._door.optimizer.param_groups]
        if self._num_steps == JUDGED or not any(rates) or self._steps.skips():
            return
        self._num_steps += 1
        trained = self._with_gradients()
        if self._num_steps < JUDGED and trained and not any(map(_has_gradient, trained.values())):
            self._num_steps = JUDGED
            logger.warning(
                tr(
                    "The gradients of all {count} parameters that are trained are 0 in the first step. Look for a "
                    "loss that does not depend on them, for weights that are all zero, or for gradients that are "
                    "cut off.",
                    count=len(trained),
                )
            )
        elif self._num_steps == JUDGED and (names := self._cut_off(trained)):
            logger.warning(
                tr(
                    "The gradients of {names} are 0, although their layers compute. If the loss should depend on "
                    "them, look for what cuts them off: detach(), asnumpy(), or nn.Parameter(...) called in forward.",
                    names=listed(names),
                )
            )
        if self._num_steps == JUDGED:
            self._remove_hooks()

    def _remove_hooks(self):
        while self._hooks:
            self._hooks.pop().remove()

    def _with_gradients(self):
        named = named_parameters(self._door.model, self._door.optimizer)
        return {name: each for name, each in named.items() if each.requires_grad and each.grad is not None}

    def _cut_off(self, trained):
        used = {
            id(parameter)
            for module in self._door.model.modules()
            if id(module) in self._called
            for parameter in module._parameters.values()
        }
        trained = {name: parameter for name, parameter in trained.items() if id(parameter) in used}
        without = [name for name, parameter in trained.items() if not _has_gradient(parameter)]
        return without if len(without) < len(trained) else []  # of a batch without labels they are


def _has_gradient(parameter):
    return parameter.grad.asnumpy().any()
