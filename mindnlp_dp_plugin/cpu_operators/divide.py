"""Divide a tensor by a number, as for attention's scores: MindSpore takes 20 times as long as for a product."""

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def divide(stock, self, other):
    """``self / other``, a number or a tensor without axes, equal to MindSpore's to the last bit."""
    if not are_float32(self):
        return stock(self, other)
    if isinstance(other, (int, float)):
        return _Quotient.of(self, other)
    is_scalar = isinstance(other, mindspore.Tensor) and other.dtype == mindspore.float32 and not other.ndim
    return _QuotientByScalar.of(self, other) if is_scalar else stock(self, other)


class _Quotient(Operator):
    def compute(self, input, number):
        self.number = number
        return _divided(input, number)

    def gradients(self, gradient):
        if self.is_differentiated_again():
            return _Quotient.of(gradient, self.number), None
        return _divided(gradient, self.number), None


class _QuotientByScalar(Operator):
    def compute(self, input, scalar):
        self.save_for_backward(input, scalar)  # MindSpore raises if one of them is written to before backward
        return _divided(input, scalar.asnumpy())

    def gradients(self, gradient):
        input, scalar = self.saved_tensors
        of_input = _QuotientByScalar.of(gradient, scalar)
        of_scalar = -(of_input * input).sum() / scalar if self.needs_gradient(1) else None
        return of_input, of_scalar


def _divided(tensor, number):
    return tensor_of(array_of(tensor) / np.float32(number))
