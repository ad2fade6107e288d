"""``mindnlp.core.value_and_grad`` of a prepared model: one call is one micro-step, and averages."""

from contextlib import contextmanager

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.distributed.turns import turns
from mindnlp_dp_plugin.patching import Replacements

MODULE = "mindnlp.core.autograd.function"

loops = []  # that dp.prepare has made, the newest last
settings = {"config": DataParallelConfig()}


def average_gradients(function, replacements: Replacements) -> None:
    """Let functions of gradients average those of prepared models over the ranks; others are computed as before.

    Args:
        function: The module ``MODULE``, before its names are copied.
        replacements: Takes it out again.
    """
    replacements.stand_in(function, value_and_grad)


def value_and_grad(stock, fn, params_or_argnums, has_aux=False, attach_grads=True):
    """MindNLP's ``value_and_grad``."""
    targets = params_or_argnums if isinstance(params_or_argnums, tuple) else tuple(params_or_argnums)
    if not targets or isinstance(targets[0], int):
        return stock(fn, targets, has_aux, attach_grads)
    under_way = []  # the call whose forward runs

    def forward(*args, **kwargs):
        return under_way[-1].forward(fn, args, kwargs) if under_way else fn(*args, **kwargs)

    attaching = stock(forward, targets, has_aux, True)
    plain = stock(fn, targets, has_aux, attach_grads)

    def run(*args, **kwargs):
        loop = next((loop for loop in reversed(loops) if loop.steps_any(targets)), None)
        if loop is None or under_way:
            return plain(*args, **kwargs)
        call = Call(loop)
        under_way.append(call)
        try:
            if attach_grads:
                return call.run(attaching, args, kwargs)
            with _set_aside(targets):
                values = call.run(attaching, args, kwargs)
                return values, tuple(parameter.grad for parameter in targets)
        finally:
            under_way.pop()

    return run


class Call:
    """One call of a function of gradients.

    Args:
        loop: The loop it belongs to.
    """

    def __init__(self, loop):
        self._loop, self._step = loop, loop.step
        self._outputs = None

    def run(self, gradients, args: tuple, kwargs: dict):
        """What the user's function returns, when its gradients are averaged and attached."""

        def forward_and_backward():
            gradients(*args, **kwargs)
            self._step.finish()
            return self._loss()

        self._loop.require_scaled_gradients()
        turns.forget()
        with self._step.micro_step():
            self._step.training_step(_columns(args, kwargs), forward_and_backward)
        return self._outputs

    def forward(self, fn, args, kwargs):
        """The user's function, its loss scaled for backward."""

        def compute_loss():
            self._outputs = fn(*args, **kwargs)
            return self._loss()

        loss = self._step.forward(compute_loss)
        return (loss, *self._outputs[1:]) if isinstance(self._outputs, tuple) else loss

    def _loss(self):
        return self._outputs[0] if isinstance(self._outputs, tuple) else self._outputs


def _columns(args, kwargs):
    """The batch, by name, for averages that count in it."""
    return kwargs or next((argument for argument in args if isinstance(argument, dict)), {})


@contextmanager
def _set_aside(parameters):
    """What is attached stays as it is: the gradients of the block are returned, not attached."""
    found = [parameter.grad for parameter in parameters]
    for parameter in parameters:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in zip(parameters, found):
            parameter.grad = gradient
