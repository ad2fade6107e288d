"""Sums of different shapes or layouts, as of scores and a mask: MindSpore takes 20 times as long as for equal ones."""

import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import (
    array_of,
    copied_in_order,
    differ_in_layout,
    order_of,
    summed_to,
    tensor_of,
)
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def add(stock, self, other):
    """``self + other``, equal to MindSpore's to the last bit."""
    if not differ_in_layout(self, other):
        return stock(self, other)
    return _Sum.of(self, other)


class _Sum(Operator):
    def compute(self, left, right):
        self.shapes, arrays = (left.shape, right.shape), (array_of(left), array_of(right))
        self.orders = [order_of(array) for array in arrays]
        return tensor_of(np.add(*arrays, order="K"))

    def gradients(self, gradient):
        if self.is_differentiated_again():
            return tuple(summed_to(shape, gradient) for shape in self.shapes)
        # New arrays, not views: a parameter's gradient is written to in place.
        g = array_of(gradient)
        return tuple(
            tensor_of(copied_in_order(summed_to(shape, g), order)) if self.needs_gradient(index) else None
            for index, (shape, order) in enumerate(zip(self.shapes, self.orders))
        )
