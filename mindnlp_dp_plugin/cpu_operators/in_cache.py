"""What is computed number by number or along the last axis, by NumPy, in blocks that stay in the cache.

Each operator computes in one visit to memory all that its backward will need. CPU tensors share their memory with NumPy
arrays, so nothing is copied.
"""

import mindspore
import numpy as np
from mindspore.common._grad_function import _Function

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, array_of, rows_of, tensor_of

BLOCK = 2**15  # numbers: a few arrays of them fit into a core's second-level cache
SQRT_HALF = 0.5**0.5
DENSITY_AT_0 = (2 * np.pi) ** -0.5
# erfc(z) = t (C1 + t (C2 + ...)) exp(-z^2) with t = 1 / (1 + P z), for z >= 0, within 1.5e-7
# (Abramowitz and Stegun, Handbook of Mathematical Functions, 7.1.26).
P, C1, C2, C3, C4, C5 = 0.3275911, 0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429


def gelu(stock, input, approximate="none"):
    """The exact one, x times the normal distribution's P(X <= x) (Hendrycks and Gimpel, arXiv:1606.08415)."""
    if approximate != "none" or not are_float32(input):
        return stock(input, approximate)
    return _Gelu.apply(input)


def softmax(stock, input, dim=-1, *, dtype=None):
    """Along the last axis."""
    if dtype is not None or dim not in (-1, input.ndim - 1) or not input.ndim or not are_float32(input):
        return stock(input, dim, dtype=dtype)
    return _Softmax.apply(input)


def layer_norm(stock, input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Over the last axis (Ba, Kiros and Hinton, arXiv:1607.06450), with a weight and a bias."""
    if weight is None or bias is None or weight.ndim != 1 or not are_float32(input, weight, bias):
        return stock(input, normalized_shape, weight, bias, eps)
    return _LayerNorm.apply(input, weight, bias, eps)


def cross_entropy(stock, input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """The mean over the rows that count, each with one class of its own; not a number if none counts."""
    is_plain = weight is None and reduction == "mean" and not label_smoothing
    if not is_plain or (input.ndim, target.ndim) != (2, 1) or target.is_floating_point() or not are_float32(input):
        return stock(input, target, weight, ignore_index, reduction, label_smoothing)
    return _CrossEntropy.apply(input, target, ignore_index)


class _Gelu(_Function):
    @staticmethod
    def forward(ctx, input):
        x = _line(input)
        y, ctx.slope = np.empty_like(x), np.empty_like(x)
        for block in _blocks(x):
            y[block], ctx.slope[block] = _gelu_and_slope(x[block])
        return _tensor(y, input)

    @staticmethod
    def backward(ctx, gradient):
        return _tensor(_line(gradient) * ctx.slope, gradient)


def _gelu_and_slope(x):
    size = np.abs(x)
    t = 1 / (1 + P * SQRT_HALF * size)
    bell = np.exp(-0.5 * size * size)
    beyond = 0.5 * t * (C1 + t * (C2 + t * (C3 + t * (C4 + t * C5)))) * bell
    below = 0.5 + np.copysign(0.5 - beyond, x)
    return x * below, below + DENSITY_AT_0 * x * bell


class _Softmax(_Function):
    @staticmethod
    def forward(ctx, input):
        x = rows_of(input)
        ctx.y = np.empty_like(x)
        for block in _blocks(x):
            y = np.exp(x[block] - x[block].max(-1, keepdims=True))
            np.divide(y, y.sum(-1, keepdims=True), out=ctx.y[block])
        return _tensor(ctx.y, input)

    @staticmethod
    def backward(ctx, gradient):
        g, dx = rows_of(gradient), np.empty_like(ctx.y)
        for block in _blocks(g):
            along = np.einsum("ij,ij->i", g[block], ctx.y[block])
            np.multiply(g[block] - along[:, None], ctx.y[block], out=dx[block])
        return _tensor(dx, gradient)


class _LayerNorm(_Function):
    @staticmethod
    def forward(ctx, input, weight, bias, eps):
        x = rows_of(input)
        ctx.weight, shift = array_of(weight), array_of(bias)
        y, ctx.normal, ctx.scale = np.empty_like(x), np.empty_like(x), np.empty_like(x[:, :1])
        for block in _blocks(x):
            centred = x[block] - x[block].mean(-1, keepdims=True)
            variance = np.einsum("ij,ij->i", centred, centred)[:, None] / x.shape[-1]
            ctx.scale[block] = 1 / np.sqrt(variance + np.float32(eps))
            ctx.normal[block] = centred * ctx.scale[block]
            y[block] = ctx.normal[block] * ctx.weight + shift
        return _tensor(y, input)

    @staticmethod
    def backward(ctx, gradient):
        g, dx = rows_of(gradient), np.empty_like(ctx.normal)
        d_weight, d_bias = np.zeros_like(ctx.weight), np.zeros_like(ctx.weight)
        for block in _blocks(g):
            normal = ctx.normal[block]
            d_weight += np.einsum("ij,ij->j", g[block], normal)
            d_bias += g[block].sum(0)
            inner = g[block] * ctx.weight
            along = np.einsum("ij,ij->i", inner, normal)[:, None] / g.shape[-1]
            dx[block] = (inner - inner.mean(-1, keepdims=True) - normal * along) * ctx.scale[block]
        return _tensor(dx, gradient), tensor_of(d_weight), tensor_of(d_bias), None


class _CrossEntropy(_Function):
    @staticmethod
    def forward(ctx, input, target, ignore_index):
        x, labels = rows_of(input), array_of(target)
        ctx.counts = labels != ignore_index
        ctx.labels = np.where(ctx.counts, labels, 0)[:, None]
        ctx.y, losses = np.empty_like(x), np.empty_like(x[:, 0])
        for block in _blocks(x):
            below = x[block] - x[block].max(-1, keepdims=True)
            y = np.exp(below)
            total = y.sum(-1, keepdims=True)
            np.divide(y, total, out=ctx.y[block])
            losses[block] = (np.log(total) - np.take_along_axis(below, ctx.labels[block], -1))[:, 0]
        with np.errstate(invalid="ignore"):
            mean = np.float32(losses[ctx.counts].sum(dtype=np.float64) / ctx.counts.sum())
        return mindspore.Tensor(mean)

    @staticmethod
    def backward(ctx, gradient):
        part = np.float32(gradient.asnumpy() / max(1, ctx.counts.sum()))
        of_row = np.where(ctx.counts, part, np.float32(0))[:, None]
        dx = np.empty_like(ctx.y)
        for block in _blocks(dx):
            np.multiply(ctx.y[block], of_row[block], out=dx[block])
        dx[np.arange(len(dx)), ctx.labels[:, 0]] -= of_row[:, 0]
        return tensor_of(dx), None, None


def _line(tensor):
    return array_of(tensor).reshape(-1)


def _blocks(rows):
    step = max(1, BLOCK // max(1, rows[:1].size))  # of no rows there is no first
    return (slice(begin, begin + step) for begin in range(0, len(rows), step))


def _tensor(values, like):
    return tensor_of(values.reshape(like.shape))
