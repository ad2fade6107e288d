"""Let the operators that MindNLP's models call compute in the precision of their list."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import mindspore
from mindnlp.core import nn
from mindnlp.core import ops as core_ops
from mindnlp.core.nn import functional
from mindnlp.core.nn.modules import normalization
from mindspore.common.api import _pynative_executor

from mindnlp_dp_plugin import recompute
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.mixed_precision.lists import FLOAT32, HALF, WIDEST
from mindnlp_dp_plugin.mixed_precision.weights import HALVES
from mindnlp_dp_plugin.nested import map_leaves
from mindnlp_dp_plugin.patching import Patches

# Where models find their operators. Some modules have names of their own for them.
OWNERS = (functional, core_ops, normalization, mindspore.Tensor)
# What MindNLP's layers of convolutions call.
CONVOLUTIONS = (mindspore.ops.Conv2D, mindspore.ops.Conv3D, mindspore.ops.Conv2DTranspose)


class Autocast:
    """Casts what operators are given while it runs, as ``torch.autocast`` does.

    A parameter is cast once in a forward pass, however often it is used.

    Args:
        dtype: ``mindspore.float16`` or ``mindspore.bfloat16``: what products compute in.
        patches: What takes the casts out of MindNLP's operators again.
    """

    def __init__(self, dtype: mindspore.Type, patches: Patches):
        self._dtype = dtype
        self._runs = False
        self._cast_parameters = {}
        for owner, name, cast in self._seams():
            patches.replace(owner, name, self._casting(getattr(owner, name), cast))
        patches.replace(_pynative_executor, "grad", self._forgetting(_pynative_executor.grad))
        recompute.context_factories.append(self._as_now)
        patches.on_undo(lambda: recompute.context_factories.remove(self._as_now))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Cast until the end of the block. Blocks may be nested."""
        outermost, self._runs = not self._runs, True
        try:
            yield
        finally:
            if outermost:
                self._runs = False
                self._cast_parameters.clear()

    def _as_now(self):
        return self.running() if self._runs else nullcontext()

    def _seams(self):
        """The owner and name of each operator, and what casts its inputs."""
        for names, cast in ((HALF, self._to_half), (FLOAT32, self.to_float32), (WIDEST, self._to_widest)):
            yield from ((owner, name, cast) for owner in OWNERS for name in names if hasattr(owner, name))
        yield from ((primitive, "__call__", self._to_half) for primitive in CONVOLUTIONS)
        yield mindspore.ops, "bias_add", self._to_half

    def _casting(self, stock: Callable, cast: Callable) -> Callable:
        @functools.wraps(stock)
        def operator(*args, **kwargs):
            if not self._runs:
                return stock(*args, **kwargs)
            args, kwargs = cast((args, kwargs))
            return stock(*args, **kwargs)

        return operator

    def _forgetting(self, stock):
        """A backward pass frees what it went through: the next forward pass casts anew."""

        @functools.wraps(stock)
        def grad(*args, **kwargs):
            try:
                return stock(*args, **kwargs)
            finally:
                self._cast_parameters.clear()

        return grad

    def _to_half(self, inputs):
        return _map_tensors(lambda t: self._half_of(t) if t.dtype == mindspore.float32 else t, inputs)

    def _half_of(self, tensor):
        if not isinstance(tensor, nn.Parameter):
            return tensor.astype(self._dtype)
        if id(tensor) not in self._cast_parameters:
            self._cast_parameters[id(tensor)] = tensor, tensor.astype(self._dtype)
        return self._cast_parameters[id(tensor)][1]

    def to_float32(self, inputs):
        """Tensors of half precision as float32, also within tuples, lists and dictionaries; the rest unchanged."""
        return _map_tensors(lambda t: t.astype(mindspore.float32) if t.dtype in HALVES else t, inputs)

    def _to_widest(self, inputs):
        found = set()
        _map_tensors(lambda t: found.add(t.dtype), inputs)
        return self.to_float32(inputs) if mindspore.float32 in found else inputs


@contextmanager
def autocast(dtype: mindspore.Type = mindspore.float16) -> Iterator[Autocast]:
    """A context in which the operators that MindNLP's models call compute in half precision, as in ``torch.autocast``.

    For a loop of your own: call the model and compute the loss inside, also within the function that
    ``mindspore.value_and_grad`` is given. Parameters and their gradients stay float32. ``TrainingArguments(fp16=True)``
    does it for the Trainer, and scales the loss.

    Args:
        dtype: ``mindspore.float16`` or ``mindspore.bfloat16``.

    Raises:
        DataParallelError: If the device cannot compute in it.

    Examples:
        >>> with dp.autocast():
        ...     loss = model(**batch).loss
    """
    if not can_compute_in(dtype):
        raise DataParallelError(
            "autocast({dtype}): MindSpore has no operators for it on CPU. Choose mindspore.float16, or leave it out.",
            dtype=dtype,
        )
    with Patches() as patches:
        casts = Autocast(dtype, patches)
        with casts.running():
            yield casts


def can_compute_in(dtype: mindspore.Type) -> bool:
    """Whether the device has operators for it."""
    return dtype != mindspore.bfloat16 or mindspore.get_context("device_target") != "CPU"


def _map_tensors(function, value):
    return map_leaves(lambda leaf: function(leaf) if isinstance(leaf, mindspore.Tensor) else leaf, value)
