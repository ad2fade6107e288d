"""A product, number by number, of different shapes or layouts: MindSpore takes 10 times as long as for equal ones."""

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


def multiply(stock, self, other):
    """``self * other``, to the same last bit."""
    if not differ_in_layout(self, other):
        return stock(self, other)
    return _Product.of(self, other)


class _Product(Operator):
    def compute(self, left, right):
        self.save_for_backward(left, right)  # MindSpore raises if one of them is written to before backward
        self.arrays = array_of(left), array_of(right)
        return tensor_of(np.multiply(*self.arrays, order="K"))

    def gradients(self, gradient):
        left, right = self.saved_tensors
        if self.is_differentiated_again():
            return summed_to(left.shape, gradient * right), summed_to(right.shape, gradient * left)
        g = array_of(gradient)
        return tuple(
            tensor_of(copied_in_order(summed_to(array.shape, g * factor), order_of(array)))
            if self.needs_gradient(i)
            else None
            for i, (array, factor) in enumerate(zip(self.arrays, self.arrays[::-1]))
        )
