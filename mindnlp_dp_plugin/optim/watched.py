"""Call functions before and after each ``optimizer.step``."""

import functools
import types
import weakref
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from mindnlp_dp_plugin.patching import Patches

_watched = weakref.WeakSet()
_num_trusted = 0  # calls in progress within which every optimizer may step


def is_watched(optimizer: Any) -> bool:
    """Whether the plugin answers for what an optimizer is about to step on."""
    return _num_trusted > 0 or optimizer in _watched


def watched() -> list[Any]:
    """The optimizers that the plugin answers for."""
    return list(_watched)


@contextmanager
def trusted():
    """Within, any optimizer may step: the plugin answers for it."""
    global _num_trusted
    _num_trusted += 1
    try:
        yield
    finally:
        _num_trusted -= 1


class WatchedSteps:
    """Calls ``before`` and ``after`` around the ``step`` of an optimizer, and of one that replaces it.

    Args:
        patches: Restores the optimizers' ``step``.

    Attributes:
        before: Functions without arguments, called in order before each step; if one raises, the step is not made.
        after: Functions without arguments, called in order after each step.
        skips: Tells whether a step is to be skipped: then only ``before`` and ``after`` are called.
        way: Makes a step, given the optimizer and its own ``step`` without arguments.
    """

    def __init__(self, patches: Patches):
        self.before: list[Callable[[], None]] = []
        self.after: list[Callable[[], None]] = []
        self.skips: Callable[[], bool] = lambda: False
        self.way: Callable[[Any, Callable[[], Any]], Any] = lambda optimizer, step: step()
        self._patches = patches
        self._watched = None

    def watch(self, optimizer) -> None:
        """Watch this optimizer from now on."""
        if optimizer is self._watched:
            return
        self._watched = optimizer
        _watched.add(optimizer)
        self._patches.on_undo(lambda: _watched.discard(optimizer))
        stock = optimizer.step

        @functools.wraps(stock)  # the learning rate scheduler has marked it
        def step(_, *args, **kwargs):
            for function in self.before:
                function()
            with trusted():  # it may wrap another
                result = None if self.skips() else self.way(optimizer, functools.partial(stock, *args, **kwargs))
            for function in self.after:
                function()
            return result

        self._patches.replace(optimizer, "step", types.MethodType(step, optimizer))
