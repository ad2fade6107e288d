"""One value where a mask says so, as in attention's scores: MindSpore takes 10 times as long as for a product."""

import functools

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, can_be_repeated, mask_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator
from mindnlp_dp_plugin.cpu_operators.scores import Scores


def masked_fill(stock, input, mask, value):
    """``input``, and ``value`` (a number, or a tensor without axes) where ``mask`` is True."""
    if not _is_usual(input, mask, value):
        return stock(input, mask, value)
    return _Filled.of(input, mask_of(mask), value)


def where(stock, condition, input, other):
    """``input`` where ``condition`` is True, and else ``other``, if that is a tensor without axes."""
    if type(input) is Scores:
        return input.filled(functools.partial(where, stock), condition, other)
    if not isinstance(other, mindspore.Tensor) or not _is_usual(input, condition, other):
        return stock(condition, input, other)
    return _Filled.of(input, ~mask_of(condition), other)


def _is_usual(input, mask, value):
    is_number = isinstance(value, (int, float))
    is_scalar = isinstance(value, mindspore.Tensor) and value.dtype == mindspore.float32 and not value.ndim
    return (
        are_float32(input)
        and (is_number or is_scalar)
        and isinstance(mask, mindspore.Tensor)
        and mask.dtype == mindspore.bool_
        and mask.size
        and can_be_repeated(input.shape, mask.shape)
        and np.broadcast_shapes(input.shape, mask.shape) == tuple(input.shape)
    )


class _Filled(Operator):
    def compute(self, input, mask, value):
        self.mask, self.is_tensor = mask, isinstance(value, mindspore.Tensor)
        return self.filled(input, value.asnumpy() if self.is_tensor else value)

    def filled(self, tensor, value):
        """A new tensor in the same layout."""
        result = array_of(tensor).copy("K")
        np.copyto(result, np.float32(value), where=self.mask)
        return tensor_of(result)

    def gradients(self, gradient):
        if self.is_differentiated_again():
            of_value = (gradient * mindspore.Tensor(self.mask.astype(np.float32))).sum() if self.is_tensor else None
            return _Filled.of(gradient, self.mask, 0), None, of_value
        of_value = None
        if self.needs_gradient(2):
            of_value = mindspore.Tensor(np.sum(array_of(gradient), where=self.mask, dtype=np.float32))
        return self.filled(gradient, 0), None, of_value
