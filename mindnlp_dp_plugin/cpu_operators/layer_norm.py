"""LayerNorm over the last axis, in one pass over memory."""

import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, rows_of, tensor_like, tensor_of
from mindnlp_dp_plugin.cpu_operators.compiled import ONE, ZERO, compiled_sums
from mindnlp_dp_plugin.cpu_operators.operator import OnceDifferentiable
from mindnlp_dp_plugin.cpu_operators.threads import in_parallel, over_rows, pieces_of

ROWS_IN_A_SUM = 64  # of float32, before they are added to the others: long sums lose bits


def layer_norm(stock, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """LayerNorm with a weight and a bias (Ba, Kiros and Hinton, arXiv:1607.06450)."""
    if not are_float32(input, weight, bias) or not weight.shape == bias.shape == input.shape[-1:]:
        return stock(input, normalized_shape, weight, bias, eps)
    return _LayerNorm.of(input, weight, bias, eps)


class _LayerNorm(OnceDifferentiable):
    def compute(self, input, weight, bias, eps):
        x = rows_of(input)
        self.weight, shift = (np.ascontiguousarray(array_of(of_all)) for of_all in (weight, bias))
        eps = np.float32(eps)
        y, self.normal, self.scale = np.empty_like(x), np.empty_like(x), np.empty_like(x[:, 0])

        def normalize(rows):
            _normalize(x[rows], self.weight, shift, eps, y[rows], self.normal[rows], self.scale[rows])

        over_rows(normalize, x)
        return tensor_like(y, input)

    def gradients(self, gradient):
        g, dx = rows_of(gradient), np.empty_like(self.normal)
        sums = np.zeros((2, -(-len(g) // ROWS_IN_A_SUM), g.shape[1]), np.float32)

        def differentiate(groups):
            for group in range(groups.start, groups.stop):
                rows = slice(group * ROWS_IN_A_SUM, (group + 1) * ROWS_IN_A_SUM)
                _differentiate(g[rows], self.normal[rows], self.weight, self.scale[rows], dx[rows], *sums[:, group])

        in_parallel(differentiate, sums.shape[1], min(sums.shape[1], pieces_of(g)))
        d_weight, d_bias = sums.sum(1)
        return tensor_like(dx, gradient), tensor_of(d_weight), tensor_of(d_bias), None


@compiled_sums
def _normalize(x, weight, bias, eps, y, normal, scale):
    num_rows, length = x.shape
    for row in range(num_rows):
        total = ZERO
        for i in range(length):
            total += x[row, i]
        mean = total / np.float32(length)
        squares = ZERO
        for i in range(length):
            squares += (x[row, i] - mean) * (x[row, i] - mean)
        scale[row] = ONE / np.sqrt(squares / np.float32(length) + eps)
        for i in range(length):
            normal[row, i] = (x[row, i] - mean) * scale[row]
            y[row, i] = normal[row, i] * weight[i] + bias[i]


@compiled_sums
def _differentiate(g, normal, weight, scale, dx, d_weight, d_bias):
    num_rows, length = g.shape
    for row in range(num_rows):
        total, along = ZERO, ZERO
        for i in range(length):
            d_weight[i] += g[row, i] * normal[row, i]
            d_bias[i] += g[row, i]
            total += g[row, i] * weight[i]
            along += g[row, i] * weight[i] * normal[row, i]
        mean, along = total / np.float32(length), along / np.float32(length)
        for i in range(length):
            dx[row, i] = (g[row, i] * weight[i] - mean - normal[row, i] * along) * scale[row]
