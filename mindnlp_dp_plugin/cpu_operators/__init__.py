"""Faster CPU operators for what MindNLP's models spend their time on, with the same mathematics.

Matrix products go through the BLAS library that NumPy brings (``products``), on several cores in pieces whose cut knows
only shapes (``blas``). What is done to each number by itself or along the last axis, MindSpore does in many passes over
memory, and NumPy in one, block by block in the cache (``in_cache``). Two plain operations MindSpore computes far slower
than others of their size (``arithmetic``).
``benchmarks/operators.py`` times them. Values and gradients differ from those of MindNLP's choice by rounding alone.
Whatever is not float32, or of an unusual form, goes the way it always went.
"""

import mindspore
from mindnlp.core import ops as core_ops
from mindnlp.core.nn import functional
from mindnlp.core.nn.modules import normalization

from mindnlp_dp_plugin.cpu_operators.arithmetic import __add__, __truediv__
from mindnlp_dp_plugin.cpu_operators.blas import compute_in_pieces
from mindnlp_dp_plugin.cpu_operators.in_cache import cross_entropy, gelu, layer_norm, softmax
from mindnlp_dp_plugin.cpu_operators.memory import keep_freed_memory
from mindnlp_dp_plugin.cpu_operators.products import linear, matmul
from mindnlp_dp_plugin.patching import Replacements

ROUTED = [
    (functional, linear),
    (core_ops, matmul),
    (functional, gelu),
    (functional, softmax),
    (functional, layer_norm),
    (functional, cross_entropy),
    (normalization, layer_norm),  # has it under a name of its own
    (mindspore.Tensor, __truediv__),
    (mindspore.Tensor, __add__),
]


def route(replacements: Replacements) -> None:
    """Let MindNLP's models compute through the operators of this room, if they compute on the CPU.

    Args:
        replacements: What takes it back.
    """
    if mindspore.get_context("device_target") != "CPU":
        return
    keep_freed_memory()
    compute_in_pieces(replacements)
    for module, operator in ROUTED:
        replacements.stand_in(module, operator)
