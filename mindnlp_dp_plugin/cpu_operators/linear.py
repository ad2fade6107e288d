"""Linear layers by NumPy's BLAS library, which takes transposed operands as they are.

MindSpore reorders them first, which can take longer than the product. Of float16 they are computed in float32 and
rounded once, as NPUs and GPUs do.
"""

from mindnlp_dp_plugin.cpu_operators import blas
from mindnlp_dp_plugin.cpu_operators.arrays import are_float32_or_16, array_of, rounded, rows_of, widened
from mindnlp_dp_plugin.cpu_operators.operator import Operator


def linear(stock, input, weight, bias=None):
    """A matrix product and a bias, in place of MindNLP's ``Dense``."""
    factors = (input, weight) if bias is None else (input, weight, bias)
    is_usual = are_float32_or_16(*factors) and weight.ndim == 2 and input.shape[-1] == weight.shape[1]
    if not is_usual or not (bias is None or bias.shape == weight.shape[:1]):
        return stock(input, weight, bias)
    return _Linear.of(input, weight, bias)


class _Linear(Operator):
    def compute(self, input, weight, bias):
        self.save_for_backward(input, weight)  # so that MindSpore raises if one is written to before backward
        self.rows, self.weight = rows_of(input), array_of(weight)
        product = blas.product(widened(self.rows), widened(self.weight).T)
        if bias is not None:
            product += array_of(bias)
        return rounded(product.reshape(*input.shape[:-1], len(self.weight)), self.rows.dtype)

    def gradients(self, gradient):
        input, weight = self.saved_tensors
        if self.is_differentiated_again():
            g, rows = gradient.reshape(-1, gradient.shape[-1]), input.reshape(-1, input.shape[-1])
            of_bias = g.sum(0).astype(g.dtype) if self.needs_gradient(2) else None
            return _Linear.of(gradient, weight.T, None), _Linear.of(g.T, rows.T, None), of_bias
        g, dtype = widened(rows_of(gradient)), self.rows.dtype
        return (
            rounded(blas.product(g, widened(self.weight)).reshape(input.shape), dtype)
            if self.needs_gradient(0)
            else None,
            rounded(blas.product(g.T, widened(self.rows)), dtype) if self.needs_gradient(1) else None,
            rounded(g.sum(0), dtype) if self.needs_gradient(2) else None,
        )
