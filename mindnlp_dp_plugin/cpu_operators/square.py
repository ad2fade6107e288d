"""Squares, as in RMSNorm: MindSpore raises to any power, and puts the repeated gradient of a mean into order first."""

import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def power(stock, input, exponent):
    """``input ** exponent``, here where the exponent is 2."""
    is_square = type(exponent) in (int, float) and exponent == 2
    return _Square.of(input) if is_square and are_float32(input) else stock(input, exponent)


class _Square(Operator):
    def compute(self, input):
        self.save_for_backward(input)  # MindSpore raises if it is written to before backward
        self.x = array_of(input)
        return tensor_of(self.x * self.x)

    def gradients(self, gradient):
        if self.is_differentiated_again():
            (input,) = self.saved_tensors
            return (gradient * 2 * input,)
        twice = self.x + self.x
        return (tensor_of(np.multiply(twice, array_of(gradient), out=twice)),)
