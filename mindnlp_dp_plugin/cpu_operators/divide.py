"""Divide a tensor by a number, as for attention's scores: MindSpore takes 20 times as long as for a product."""

import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def divide(stock, self, other):
    """``self / other``, equal to MindSpore's to the last bit."""
    if not (isinstance(other, (int, float)) and are_float32(self)):
        return stock(self, other)
    return _Quotient.of(self, other)


class _Quotient(Operator):
    def compute(self, input, number):
        self.number = number
        return _divided(input, number)

    def gradients(self, gradient):
        if self.is_differentiated_again():
            return _Quotient.of(gradient, self.number), None
        return _divided(gradient, self.number), None


def _divided(tensor, number):
    return tensor_of(array_of(tensor) / np.float32(number))
