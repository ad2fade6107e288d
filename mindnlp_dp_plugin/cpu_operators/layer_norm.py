"""LayerNorm over the last axis, in one pass over memory."""

import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, blocks_of, rows_of, tensor_like, tensor_of
from mindnlp_dp_plugin.cpu_operators.operator import OnceDifferentiable


def layer_norm(stock, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """LayerNorm with a weight and a bias (Ba, Kiros and Hinton, arXiv:1607.06450)."""
    if not are_float32(input, weight, bias) or not weight.shape == bias.shape == input.shape[-1:]:
        return stock(input, normalized_shape, weight, bias, eps)
    return _LayerNorm.of(input, weight, bias, eps)


class _LayerNorm(OnceDifferentiable):
    def compute(self, input, weight, bias, eps):
        x = rows_of(input)
        self.weight, shift = array_of(weight), array_of(bias)
        y, self.normal, self.scale = np.empty_like(x), np.empty_like(x), np.empty_like(x[:, :1])
        for block in blocks_of(x):
            centred = x[block] - x[block].mean(-1, keepdims=True)
            variance = np.einsum("ij,ij->i", centred, centred)[:, None] / x.shape[-1]
            self.scale[block] = 1 / np.sqrt(variance + np.float32(eps))
            self.normal[block] = centred * self.scale[block]
            y[block] = self.normal[block] * self.weight + shift
        return tensor_like(y, input)

    def gradients(self, gradient):
        g, dx = rows_of(gradient), np.empty_like(self.normal)
        d_weight, d_bias = np.zeros_like(self.weight), np.zeros_like(self.weight)
        for block in blocks_of(g):
            normal = self.normal[block]
            d_weight += np.einsum("ij,ij->j", g[block], normal)
            d_bias += g[block].sum(0)
            inner = g[block] * self.weight
            along = np.einsum("ij,ij->i", inner, normal)[:, None] / g.shape[-1]
            dx[block] = (inner - inner.mean(-1, keepdims=True) - normal * along) * self.scale[block]
        return tensor_like(dx, gradient), tensor_of(d_weight), tensor_of(d_bias), None
