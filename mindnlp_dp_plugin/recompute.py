"""Keep the inputs of a model's layers in place of their activations, and compute these again in backward.

A step takes about a third longer and needs far less memory: Chen et al., "Training Deep Nets with Sublinear Memory
Cost", 2016; torch calls it activation checkpointing.
"""

import functools
import importlib
import logging
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import mindspore
from mindspore.common._grad_function import _Function
from mindspore.common.api import _pynative_executor

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.nested import map_leaves

# Not reached as an attribute: mindspore.common.seed is a function, too.
operator_seed = importlib.import_module("mindspore.common.seed")

logger = logging.getLogger(__name__)

context_factories: list[Callable[[], AbstractContextManager]] = []
"""Each is called in forward, and returns the context in which the layer runs again in backward."""

FLOATS = (mindspore.float16, mindspore.float32, mindspore.float64, mindspore.bfloat16)


def enable_recompute(model) -> None:
    """Let each layer of a model compute its activations again in backward, while the model trains.

    Layers are the members of the model's ``ModuleList``s; of lists within a member, the member is the layer.

    Args:
        model: The model. ``use_cache`` of its configs is set to False: a cache would grow in both passes.

    Raises:
        DataParallelError: If the model has no list of layers, or a layer's ``forward`` is not that of its class.
    """
    layers = list(layers_of(model))
    if not layers:
        raise DataParallelError(
            "recompute=True: {model} has no nn.ModuleList, so it has no layers to compute again. Put its layers into "
            "one, or leave recompute out.",
            model=type(model).__name__,
        )
    for layer in layers:
        if "forward" in vars(layer) and not is_recomputed(layer):
            raise DataParallelError(
                "recompute=True replaces forward, but a {layer} of {model} has one of its own, set on the object. "
                "Define it in a class, or leave recompute out.",
                layer=type(layer).__name__,
                model=type(model).__name__,
            )
    _leave_caches_out(model)
    for layer in layers:
        if not is_recomputed(layer):
            layer.forward = types.MethodType(_forward, layer)


def disable_recompute(model) -> None:
    """Let the layers of a model keep their activations again."""
    for layer in layers_of(model):
        if is_recomputed(layer) and not isinstance(layer.forward, Lending):
            del layer.forward


def layers_of(module) -> Iterator:
    """The members of a module's ``ModuleList``s; of lists within a member, the member."""
    from mindnlp.core import nn  # MindNLP is given these functions while it is imported

    for child in module.children():
        if isinstance(module, nn.ModuleList) and not isinstance(child, nn.ModuleList):
            yield child
        else:
            yield from layers_of(child)


def is_recomputed(layer) -> bool:
    """Whether a layer computes its activations again: by ``enable_recompute``, or as its weights are lent to it."""
    forward = vars(layer).get("forward")
    return isinstance(forward, Lending) or getattr(forward, "__func__", None) is _forward


def caching_configs(model) -> list:
    """The configs of a model, and of its parts, that let it keep keys and values of the past."""
    configs = {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}
    return [config for config in configs.values() if getattr(config, "use_cache", False)]


def _leave_caches_out(model):
    caching = caching_configs(model)
    for config in caching:
        config.use_cache = False
    if caching:
        logger.info(
            tr("recompute=True sets use_cache=False in the model's config. Set it to True before you generate.")
        )


def _forward(layer, *args, **kwargs):
    if not (layer.training and _pynative_executor.requires_grad()):
        return type(layer).forward(layer, *args, **kwargs)
    return _Pass(layer, args, kwargs).result()


class Lending(functools.partial):
    """A layer's ``forward`` by ``computed_with``."""


Lend = Callable[[list], list]
"""Given a layer's weights, returns what it computes with instead: a tensor, or None for the weight itself."""


def computed_with(layer, lend: Lend, args: tuple, kwargs: dict):
    """What a layer returns, computed with weights that are lent to it, and lent again in backward.

    Args:
        layer: A ``mindnlp.core.nn.Module``.
        lend: Is called before each pass; nothing keeps what it returns behind the pass.
        args: What the layer is called with.
        kwargs: The same, by name.
    """
    one_pass = _Pass(layer, args, kwargs, lend)
    return one_pass.result() if _pynative_executor.requires_grad() else one_pass.result_alone()


class _Pass:
    """A pass through a layer that can be made a second time."""

    def __init__(self, layer, args, kwargs, lend: Lend | None = None):
        self._layer, self._lend = layer, lend
        self._weights = [
            (owned, name)
            for module in layer.modules()
            for owned in [module._parameters]
            for name, parameter in owned.items()
            if parameter is not None
        ]
        self._inputs, self._arguments = _without_tensors((args, kwargs))
        self._random = _random_state()
        self._contexts = [capture() for capture in context_factories]

    def result(self):
        """What the layer returns."""
        weights = [owned[name] for owned, name in self._weights]
        outputs = _Recomputed.apply(self, *self._inputs, *weights)
        return _with_tensors(self._form, outputs if isinstance(outputs, tuple) else (outputs,))

    def result_alone(self):
        """The same, without backward."""
        weights = [owned[name] for owned, name in self._weights]
        outputs = self.run(*self.lent([*self._inputs, *weights]))
        return _with_tensors(self._form, outputs)

    def lent(self, tensors):
        """Inputs and weights, with what is lent in the place of weights."""
        if self._lend is None:
            return tensors
        num_inputs, weights = len(self._inputs), [owned[name] for owned, name in self._weights]
        lent = zip(tensors[num_inputs:], self._lend(weights))
        return [*tensors[:num_inputs], *(weight if given is None else given for weight, given in lent)]

    def run(self, *tensors):
        """The tensors that the layer returns, given those it takes and its weights."""
        inputs, weights = tensors[: len(self._inputs)], tensors[len(self._inputs) :]
        args, kwargs = _with_tensors(self._arguments, inputs)
        parameters = [owned[name] for owned, name in self._weights]
        self._set(weights)
        try:
            outputs, self._form = _without_tensors(type(self._layer).forward(self._layer, *args, **kwargs))
        finally:
            self._set(parameters)
        return tuple(outputs)

    def run_again(self, *tensors):
        """``run`` with the random numbers and in the contexts of the first pass."""
        with ExitStack() as stack:
            for context in self._contexts:
                stack.enter_context(context)
            stack.enter_context(_random_numbers_of(self._random))
            return self.run(*tensors)

    def _set(self, weights):
        for (owned, name), weight in zip(self._weights, weights):
            owned[name] = weight


class _Recomputed(_Function):
    @staticmethod
    def forward(ctx, layer_pass, *tensors):
        ctx.layer_pass = layer_pass
        ctx.save_for_backward(*tensors)
        with mindspore._no_grad():
            return layer_pass.run(*layer_pass.lent([*map(mindspore.ops.stop_gradient, tensors)]))

    @staticmethod
    def backward(ctx, *gradients):
        # The weights are inputs of the second pass, so their hooks see the gradient of the whole step alone.
        tensors = ctx.layer_pass.lent([mindspore.ops.stop_gradient(tensor) for tensor in ctx.saved_tensors])
        needed = [i for i, tensor in enumerate(tensors) if ctx.needs_input_grad[1 + i] and _is_float(tensor)]

        def forward(*differentiated):
            for i, tensor in zip(needed, differentiated):
                tensors[i] = tensor
            return tuple(filter(_is_float, ctx.layer_pass.run_again(*tensors)))

        differentiate = mindspore.ops.GradOperation(get_all=True, sens_param=True)(forward)
        found = differentiate(*[tensors[i] for i in needed], tuple(filter(_is_float, gradients)))
        results = [None] * (1 + len(tensors))
        for i, gradient in zip(needed, found):
            results[1 + i] = gradient
        return tuple(results)


def _is_float(tensor):
    return tensor.dtype in FLOATS


class _Place:
    """Where a tensor was."""


def _without_tensors(value):
    """The tensors in nested tuples, lists and dictionaries, and the same with a place for each."""
    tensors = []

    def take(tensor):
        tensors.append(tensor)
        return _Place()

    return tensors, map_leaves(lambda leaf: take(leaf) if isinstance(leaf, mindspore.Tensor) else leaf, value)


def _with_tensors(value, tensors):
    tensors = iter(tensors)
    return map_leaves(lambda leaf: next(tensors) if isinstance(leaf, _Place) else leaf, value)


def _random_state():
    return operator_seed._GLOBAL_SEED, dict(operator_seed._KERNEL_SEED), mindspore.get_rng_state()


def _set_random_state(state):
    operator_seed._GLOBAL_SEED, of_kernels, generator = state
    operator_seed._KERNEL_SEED = dict(of_kernels)
    mindspore.set_rng_state(generator)


@contextmanager
def _random_numbers_of(state):
    later = _random_state()
    _set_random_state(state)
    try:
        yield
    finally:
        _set_random_state(later)
