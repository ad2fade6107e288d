"""The scores of attention, before anything is computed of them.

MindNLP's code takes a product of queries and keys, scales it, adds masks, and so on. Within a module of attention such
a product is a ``Scores``, which notes what is done to it; its product with the values computes all of that
(``attention``). So the code of any family is left as it is.
"""

from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from inspect import signature
from typing import Any

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, can_be_repeated, mask_of
from mindnlp_dp_plugin.cpu_operators.attention import AXES, Added, Attention, Divided, Filled, Kept

_is_attending = False


def attend(stock, self, *args, **kwargs):
    """A module's ``forward``, whose scores are kept by nobody, unless they are asked for.

    Modules that are not MindNLP's get tensors: their functions know no ``Scores``.
    """
    is_stock = all(type(module).__module__.startswith("mindnlp.") for module in self.modules())
    if not is_stock or _arguments_of(stock).bind(self, *args, **kwargs).arguments.get("output_attentions"):
        return stock(self, *args, **kwargs)
    with _attending(True):
        return stock(self, *args, **kwargs)


_arguments_of = cache(signature)


@contextmanager
def _attending(is_so):
    global _is_attending
    before, _is_attending = _is_attending, is_so
    try:
        yield
    finally:
        _is_attending = before


# Python looks operators up in the class, and asks no __getattr__.
BY_TENSOR = (
    *("__getitem__", "__len__", "__bool__", "__float__", "__neg__", "__abs__", "__invert__"),
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"),
    *(
        f"__{side}{name}__"
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor")
        for side in ("", "r")
    ),
)


def are_scores(queries, keys) -> bool:
    """Whether a product of these is a ``Scores``."""
    return (
        _is_attending
        and are_float32(queries, keys)
        and queries.ndim == keys.ndim == AXES
        and queries.shape[:2] == keys.shape[:2]
        and queries.shape[-1] == keys.shape[-2]
    )


class Scores:
    """A product of queries and keys, and what was done to it; a tensor, if it is asked for anything else.

    Args:
        matmul: MindNLP's product.
        queries: By row, head, place and number.
        keys: The same, but for the last two axes, which are swapped.
    """

    def __init__(self, matmul: Callable, queries, keys):
        self._queries, self._keys = queries, keys
        self._computed = lambda: matmul(queries, keys)
        self._steps, self._tensors, self._kept, self._are_weights = [], [], None, False
        self.shape, self.dtype = (*queries.shape[:-1], keys.shape[-1]), queries.dtype
        self.ndim, self.size = AXES, int(np.prod(self.shape))

    @property
    def tensor(self) -> mindspore.Tensor:
        """Computed as MindNLP does."""
        with _attending(False):
            return self._computed()

    def __getattr__(self, name):
        return getattr(self.tensor, name)

    def __truediv__(self, other):
        is_scalar = isinstance(other, mindspore.Tensor) and other.dtype == mindspore.float32 and not other.ndim
        if self._are_weights or not (is_scalar or isinstance(other, (int, float))):
            return self.tensor / other
        number = other.asnumpy()[()] if is_scalar else np.float32(other)
        return self._with(lambda scores: scores / other, Divided(number))

    def __add__(self, other):
        if self._are_weights or not (are_float32(other) and self._is_repeated(other)):
            return self.tensor + other
        return self._with(lambda scores: scores + other, Added(len(self._tensors)), other)

    __iadd__ = __add__

    def filled(self, stock: Callable, stays, number):
        """``where(stays, self, number)``."""
        is_number = isinstance(number, mindspore.Tensor) and number.dtype == mindspore.float32 and not number.ndim
        is_usual = is_number and stays.dtype == mindspore.bool_ and self._is_repeated(stays)
        if self._are_weights or not is_usual:
            return stock(stays, self.tensor, number)
        step = Filled(np.broadcast_to(mask_of(stays), self.shape), number.asnumpy()[()])
        return self._with(lambda scores: stock(stays, scores, number), step)

    def to(self, dtype) -> Any:
        """Itself, in float32."""
        return self if dtype == mindspore.float32 else self.tensor.to(dtype)

    astype = to

    def float(self) -> "Scores":
        """Itself."""
        return self

    def type_as(self, other) -> Any:
        """Itself, in float32."""
        return self.to(other.dtype)

    def softmax(self, stock: Callable, dim, dtype):
        """The weights of attention."""
        if self._are_weights or dim not in (-1, AXES - 1) or dtype not in (None, mindspore.float32):
            return stock(self.tensor, dim, dtype=dtype)
        weights = self._with(lambda scores: stock(scores, dim, dtype=dtype))
        weights._are_weights = True
        return weights

    @property
    def may_be_dropped(self) -> bool:
        """Whether they are weights, and all of them."""
        return self._are_weights and self._kept is None

    def left(self, kept: Kept) -> "Scores":
        """Weights, without those that dropout drops."""

        def kept_of(weights):
            factors = np.unpackbits(kept.bits, count=self.size) * kept.scale
            return weights * mindspore.Tensor(factors.reshape(self.shape))

        left = self._with(kept_of)
        left._kept = kept
        return left

    def product(self, stock: Callable, values):
        """Of the weights with the values, of which there is one for each key."""
        is_usual = self._are_weights and are_float32(values) and values.ndim == AXES
        if not (is_usual and values.shape[:-1] == (*self.shape[:2], self.shape[-1])):
            return stock(self.tensor, values)
        return Attention.of(self._queries, self._keys, values, tuple(self._steps), self._kept, *self._tensors)

    def _is_repeated(self, other):
        """Whether to this shape, which stays as it is."""
        is_usual = other.ndim <= AXES and can_be_repeated(self.shape, other.shape)
        return is_usual and np.broadcast_shapes(self.shape, other.shape) == self.shape

    def _with(self, function, step=None, tensor=None):
        computed, changed = self._computed, Scores.__new__(Scores)
        vars(changed).update(vars(self))
        changed._computed = lambda: function(computed())
        changed._steps = [*self._steps, *([] if step is None else [step])]
        changed._tensors = [*self._tensors, *([] if tensor is None else [tensor])]
        return changed


def _by_tensor(name):
    def operator(self, *others):
        others = [each.tensor if type(each) is Scores else each for each in others]
        return getattr(self.tensor, name)(*others)

    return operator


for _name in BY_TENSOR:
    if _name not in vars(Scores):
        setattr(Scores, _name, _by_tensor(_name))
