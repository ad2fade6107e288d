"""Faster CPU operators for what MindNLP's models spend their time on, with the same mathematics.

MindSpore has several operators for one product, and on CPU they are not equally fast: ``benchmarks/operators.py``
times them. Values and gradients differ from those of MindNLP's choice by rounding alone. Whatever is not float32, or
of an unusual form, goes the way it always went.
"""

import functools

import mindspore
from mindnlp.core import ops as core_ops
from mindnlp.core.nn import functional
from mindspore import ops

from mindnlp_dp_plugin.patching import Replacements

SQRT_HALF = 0.5**0.5

_times_transposed = ops.MatMul(transpose_b=True)
_times_batched = ops.BatchMatMul()
_add_bias = ops.BiasAdd()


def linear(stock, input, weight, bias=None):
    """A matrix product and a bias, where MindNLP takes ``Dense``."""
    if not _are_float32(input, weight):
        return stock(input, weight, bias)
    product = _times_transposed(input.reshape(-1, input.shape[-1]), weight)
    if bias is not None:
        product = _add_bias(product, bias)
    return product.reshape(*input.shape[:-1], weight.shape[0])


def gelu(stock, input, approximate="none"):
    """By its definition, through erf (Hendrycks and Gimpel, arXiv:1606.08415), where MindNLP takes ``GeLU``."""
    if approximate != "none" or not _are_float32(input):
        return stock(input, approximate)
    return input * (0.5 * (1 + ops.erf(input * SQRT_HALF)))


def matmul(stock, input, other):
    """One batched product, where ``ops.matmul`` first looks for what to broadcast."""
    if not (_are_float32(input, other) and input.ndim > 2 and input.shape[:-2] == other.shape[:-2]):
        return stock(input, other)
    return _times_batched(input, other)


def route(replacements: Replacements) -> None:
    """Let MindNLP's models compute through the operators above, if they compute on the CPU.

    Args:
        replacements: What takes it back.
    """
    if mindspore.get_context("device_target") != "CPU":
        return
    for module, operator in ((functional, linear), (functional, gelu), (core_ops, matmul)):
        stock = getattr(module, operator.__name__)
        replacements.replace(module, operator.__name__, functools.wraps(stock)(functools.partial(operator, stock)))


def _are_float32(*tensors):
    return all(tensor.dtype == mindspore.float32 for tensor in tensors)
