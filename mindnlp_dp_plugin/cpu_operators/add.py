"""Sums of different shapes, such as scores and a mask: MindSpore takes 20 times as long as for equal shapes."""

import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, can_be_repeated, summed_to, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def add(stock, self, other):
    """``self + other``, equal to MindSpore's to the last bit."""
    if not (are_float32(self, other) and self.shape != other.shape and can_be_repeated(self.shape, other.shape)):
        return stock(self, other)
    return _Sum.of(self, other)


class _Sum(Operator):
    def compute(self, left, right):
        self.shapes = left.shape, right.shape
        return tensor_of(np.add(array_of(left), array_of(right), order="C"))

    def gradients(self, gradient):
        if self.is_differentiated_again():
            return tuple(summed_to(shape, gradient) for shape in self.shapes)
        # New arrays, not views: a parameter's gradient is written to in place.
        g = array_of(gradient)
        return tuple(
            tensor_of(np.array(summed_to(shape, g), order="C")) if self.needs_gradient(index) else None
            for index, shape in enumerate(self.shapes)
        )
