"""``mindnlp.core.value_and_grad`` of a prepared model: one call is one micro-step, and averages."""

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.distributed.turns import turns
from mindnlp_dp_plugin.patching import Patches, replaced
from mindnlp_dp_plugin.port import Announced

MODULE = "mindnlp.core.autograd.function"

loops = []  # that dp.prepare has made, the newest last
settings = {"config": DataParallelConfig()}


def average_gradients(function, patches: Patches) -> None:
    """Let functions of gradients average those of prepared models over the ranks; others are computed as before.

    Args:
        function: The module ``MODULE``, before its names are copied.
        patches: Takes it out again.
    """
    patches.stand_in(function, value_and_grad)


def value_and_grad(stock, fn, params_or_argnums, has_aux=False, attach_grads=True):
    """MindNLP's ``value_and_grad``."""
    targets = params_or_argnums if isinstance(params_or_argnums, tuple) else tuple(params_or_argnums)
    if not targets or isinstance(targets[0], int):
        return stock(fn, targets, has_aux, attach_grads)
    under_way = []  # the call whose forward runs

    def forward(*args, **kwargs):
        return under_way[-1].forward(args, kwargs) if under_way else fn(*args, **kwargs)

    attaching = stock(forward, targets, has_aux, True)
    plain = stock(fn, targets, has_aux, attach_grads)

    def run(*args, **kwargs):
        loop = next((loop for loop in reversed(loops) if loop.steps_any(targets)), None)
        if loop is None or under_way:
            return plain(*args, **kwargs)
        call = Call(loop, fn, has_aux, targets)
        under_way.append(call)
        try:
            if attach_grads:
                return call.run(attaching, args, kwargs)
            with replaced(loop.door.clock, "is_syncing", True), loop.set_aside(targets):
                values = call.run(attaching, args, kwargs)
                return values, tuple(parameter.grad for parameter in targets)
        finally:
            under_way.pop()

    return run


class Call:
    """One call of a function of gradients.

    Args:
        loop: The loop it belongs to.
        fn: The user's function.
        has_aux: Whether what it returns behind the loss has no part in the gradients.
        targets: The parameters whose gradients are wanted.
    """

    def __init__(self, loop, fn, has_aux: bool, targets: tuple):
        self._loop, self._step = loop, loop.step
        self._fn, self._has_aux, self._targets = fn, has_aux, targets
        self._loss = None

    def run(self, gradients, args: tuple, kwargs: dict):
        """What the function of gradients returns, when these are averaged and attached."""
        found = []

        def forward_and_backward():
            found.append(gradients(*args, **kwargs))
            self._step.finish()
            return self._loss

        self._loop.require_scaled_gradients()
        turns.forget()
        columns = self._loop.columns_of(self._fn, args, kwargs)
        if not self._step.announcements.expects(columns):
            self._step.announcements.announce([Announced(columns, self._loop.is_repeated(columns))])
        with self._loop.attaching_to(self._targets), self._step.micro_step():
            self._step.training_step(columns, forward_and_backward)
        return (self._loss, *found[0][1:]) if isinstance(found[0], tuple) else self._loss

    def forward(self, args, kwargs):
        """The user's function, its loss scaled for backward."""
        others = None

        def compute_loss():
            nonlocal others
            self._loss = self._fn(*args, **kwargs)
            if isinstance(self._loss, tuple):
                self._loss, *others = self._loss
            return self._loss

        loss = self._step.forward(compute_loss)
        return loss if others is None else (loss, *others)
