"""Linear layers by NumPy's BLAS library, which takes transposed operands as they are.

MindSpore reorders them first, which can take longer than the product.
"""

from mindnlp_dp_plugin.cpu_operators import blas
from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, rows_of, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def linear(stock, input, weight, bias=None):
    """A matrix product and a bias, in place of MindNLP's ``Dense``."""
    is_usual = are_float32(input, weight) and weight.ndim == 2 and input.shape[-1] == weight.shape[1]
    if not is_usual or not (bias is None or are_float32(bias) and bias.shape == weight.shape[:1]):
        return stock(input, weight, bias)
    return _Linear.of(input, weight, bias)


class _Linear(Operator):
    def compute(self, input, weight, bias):
        self.save_for_backward(input, weight)  # so that MindSpore raises if one is written to before backward
        self.rows, self.weight = rows_of(input), array_of(weight)
        product = blas.product(self.rows, self.weight.T)
        if bias is not None:
            product += array_of(bias)
        return tensor_of(product.reshape(*input.shape[:-1], len(self.weight)))

    def gradients(self, gradient):
        input, weight = self.saved_tensors
        if self.is_differentiated_again():
            g, rows = gradient.reshape(-1, gradient.shape[-1]), input.reshape(-1, input.shape[-1])
            return _Linear.of(gradient, weight.T, None), _Linear.of(g.T, rows.T, None), g.sum(0)
        g = rows_of(gradient)
        return (
            tensor_of(blas.product(g, self.weight).reshape(input.shape)) if self.needs_gradient(0) else None,
            tensor_of(blas.product(g.T, self.rows)) if self.needs_gradient(1) else None,
            tensor_of(g.sum(0)) if self.needs_gradient(2) else None,
        )
