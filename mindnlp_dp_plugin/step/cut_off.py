"""Names parameters that get no gradient though their layers compute."""

import logging

from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.optim.parameters import named_parameters
from mindnlp_dp_plugin.optim.watched import WatchedSteps
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.step.stepped import listed

logger = logging.getLogger(__name__)

JUDGED = 2  # in the first step, adapters that begin at 0 keep the gradients of what is before them at 0


class CutOff:
    """Looks at the gradients of the second step with a learning rate above 0, and says once which are all 0.

    Parameters of layers that are not called are left out: they are unused.

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
        if self._num_steps < JUDGED:
            return
        self._remove_hooks()
        names = self._without_gradient()
        if names:
            logger.warning(
                tr(
                    "The gradients of {names} are 0, although their layers compute. If the loss should depend on "
                    "them, look for what cuts them off: detach(), asnumpy(), or nn.Parameter(...) called in forward.",
                    names=listed(names),
                )
            )

    def _remove_hooks(self):
        while self._hooks:
            self._hooks.pop().remove()

    def _without_gradient(self):
        model, optimizer = self._door.model, self._door.optimizer
        used = {
            id(parameter)
            for module in model.modules()
            if id(module) in self._called
            for parameter in module._parameters.values()
        }
        trained = {
            name: parameter.grad
            for name, parameter in named_parameters(model, optimizer).items()
            if parameter.requires_grad and parameter.grad is not None and id(parameter) in used
        }
        without = [name for name, gradient in trained.items() if not gradient.asnumpy().any()]
        return without if len(without) < len(trained) else []  # of all, the first step has told
