"""Nobody trains apart in silence: ranks that step on gradients of their own are stopped at the first step."""

import functools
import math
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.optim.watched import is_watched, trusted, watched
from mindnlp_dp_plugin.patching import Patches

MINDNLP_OPTIMIZERS = ("mindnlp.core.optim.optimizer", "mindtorch.optim.optimizer")  # of 0.4 and of 0.5
MINDSPORE_OPTIMIZERS = ("mindspore.nn.optim.optimizer", "mindspore.experimental.optim.optimizer")  # mint's, too
WHOLE_STEPS = "mindspore.nn.wrap.cell_wrapper"
SPLITS_MODELS = ("semi_auto_parallel", "auto_parallel")  # there MindSpore averages by itself
OF_MINDSPORE = Message("Sum its gradients over the ranks by mindspore.nn.DistributedGradReducer.")
COMPILERS = ("mindspore.graph._parse", "mindspore._extends.parse")  # from MindSpore 2.10 on, and before


class Summed:
    """What the script itself has summed over the ranks.

    Attributes:
        numbers: How many numbers so far.
        on_first_step: Is called with an optimizer before it first steps on what was summed.
        on_step: Is called with it after each such step.
    """

    def __init__(self):
        self.numbers = 0
        self.on_first_step: Callable[[Any], None] = lambda optimizer: None
        self.on_step: Callable[[Any], None] = lambda optimizer: None
        self._operators = weakref.WeakSet()
        self._uncalled = weakref.WeakSet()

    def count(self, *tensors: Any) -> None:
        """Note that the numbers of some tensors are summed."""
        self.numbers += sum(math.prod(tensor.shape) for tensor in tensors)

    def note_operator(self, operator: Any) -> None:
        """Note that the script has made an operator that sums."""
        self._operators.add(operator)
        self._uncalled.add(operator)

    def note_call(self, operator: Any, tensors: Iterable) -> None:
        """Note that Python calls an operator; it counts if the script has made it, and not the plugin."""
        self._uncalled.discard(operator)
        if operator in self._operators:
            self.count(*tensors)

    @property
    def may_be_in_a_graph(self) -> bool:
        """Whether the script has an operator that Python never called: a graph may run it, which nobody sees."""
        return bool(self._uncalled)

    @contextmanager
    def apart(self):
        """Operators that are made within are parts of another."""
        operators, uncalled = weakref.WeakSet(self._operators), weakref.WeakSet(self._uncalled)
        yield
        self._operators, self._uncalled = operators, uncalled


class Guard:
    """Looks at each step of an optimizer that the plugin does not watch.

    Args:
        summed: What the script has summed.
        hint: How to train together; a sentence.
    """

    def __init__(self, summed: Summed, hint: str):
        self._summed, self._hint = summed, hint
        self._at_last_step = weakref.WeakKeyDictionary()

    def install(self, when_imported: Callable, patches: Patches) -> None:
        """Look at the steps of MindNLP's optimizers and MindSpore's, and at graphs in which MindSpore's step.

        Args:
            when_imported: Calls a function with a module when that is imported.
            patches: Restores the optimizers.
        """
        for name in MINDNLP_OPTIMIZERS:
            when_imported(name, lambda module: self._guard_mindnlp(module.Optimizer, patches))
        for name in MINDSPORE_OPTIMIZERS:
            when_imported(name, lambda module: self._guard_mindspore(module.Optimizer, patches))
        when_imported(WHOLE_STEPS, lambda module: self._guard_whole_steps(module.TrainOneStepCell, patches))

    def require_summed(self, optimizer: Any, gradients: list) -> None:
        """Raise if fewer numbers were summed since an optimizer's last step than it steps on.

        Args:
            optimizer: It is about to step.
            gradients: What it steps on.

        Raises:
            DataParallelError: Naming the optimizer.
        """
        since = self._summed.numbers - self._at_last_step.get(optimizer, 0)
        if since < sum(math.prod(gradient.shape) for gradient in gradients) and not self._summed.may_be_in_a_graph:
            self._refuse(optimizer)
        if optimizer not in self._at_last_step:
            self._summed.on_first_step(optimizer)
        self._at_last_step[optimizer] = self._summed.numbers

    def _stepped(self, optimizer, step):
        with trusted():  # it may call the step of its base class, or be compiled now
            result = step()
        self._summed.on_step(optimizer)
        return result

    def _refuse(self, optimizer):
        if others := watched():
            raise DataParallelError(
                "{optimizer} steps beside {others} on gradients that were not averaged over the ranks. In a loop of "
                "your own prepare it, too, with its model; beside a Trainer make its parameters a group of the "
                "Trainer's optimizer, or sum their gradients by mindspore.mint.distributed.all_reduce.",
                optimizer=type(optimizer).__name__,
                others=", ".join(sorted({type(other).__name__ for other in others})),
            )
        is_mindspores = any(base.__module__.startswith("mindspore.") for base in type(optimizer).__mro__)
        raise DataParallelError(
            "{optimizer} steps on gradients that were not averaged over the ranks: each rank would train on its own. "
            "{hint} If each rank is meant to train a model of its own, set MINDNLP_DP_TRAIN_APART=1.",
            optimizer=type(optimizer).__name__,
            hint=OF_MINDSPORE if is_mindspores else self._hint,
        )

    def _guard_mindnlp(self, base, patches):
        guarded = set()

        def guard_class(kind):
            for owner in kind.__mro__:
                if owner is not base and "step" in vars(owner) and owner not in guarded:
                    guarded.add(owner)
                    patches.replace(owner, "step", self._guarded_step(vars(owner)["step"]))

        def __init__(stock, optimizer, *args, **kwargs):
            guard_class(type(optimizer))
            stock(optimizer, *args, **kwargs)

        # When one is made: so it counts neither where its class comes from nor when that was imported.
        patches.stand_in(base, __init__)

    def _guarded_step(self, stock):
        @functools.wraps(stock)
        def step(optimizer, *args, **kwargs):
            if is_watched(optimizer):
                return stock(optimizer, *args, **kwargs)
            parameters = (parameter for group in optimizer.param_groups for parameter in group["params"])
            gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
            self.require_summed(optimizer, gradients)
            return self._stepped(optimizer, functools.partial(stock, optimizer, *args, **kwargs))

        return step

    def _guard_mindspore(self, base, patches):
        def __call__(stock, optimizer, *args, **kwargs):
            if is_watched(optimizer):
                return stock(optimizer, *args, **kwargs)
            self.require_summed(optimizer, list(tensors_in(args)))
            return self._stepped(optimizer, functools.partial(stock, optimizer, *args, **kwargs))

        def get_parse_method_of_class(stock, cell, *args, **kwargs):
            if isinstance(cell, base) and not is_watched(cell):
                self._require_summed_in_graph(cell)
            return stock(cell, *args, **kwargs)

        patches.stand_in(base, __call__)
        patches.stand_in(compiler(), get_parse_method_of_class)

    def _guard_whole_steps(self, base, patches):
        def __call__(stock, cell, *args, **kwargs):
            # Before it is compiled, for then MindSpore logs its own stack first. In PyNative the optimizer is called.
            if not is_graph_mode():
                return stock(cell, *args, **kwargs)
            if not cell.reducer_flag:
                self._require_summed_in_graph(cell.optimizer)
            return self._stepped(cell.optimizer, functools.partial(stock, cell, *args, **kwargs))

        patches.stand_in(base, __call__)

    def _require_summed_in_graph(self, optimizer):
        import mindspore

        is_for_mindspore = mindspore.get_auto_parallel_context("parallel_mode") in SPLITS_MODELS
        if not (is_for_mindspore or self._summed.may_be_in_a_graph):
            self._refuse(optimizer)


def is_graph_mode() -> bool:
    """Whether cells that are called are compiled."""
    import mindspore

    return mindspore.get_context("mode") == mindspore.GRAPH_MODE


def compiler() -> ModuleType:
    """The module in which MindSpore parses what is compiled."""
    return next(sys.modules[name] for name in COMPILERS if name in sys.modules)


def tensors_in(values: Iterable) -> Iterator:
    """The tensors among values, and in their tuples and lists."""
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from tensors_in(value)
        elif hasattr(value, "shape"):
            yield value
