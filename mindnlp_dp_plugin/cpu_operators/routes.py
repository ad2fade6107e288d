"""Which of MindNLP's operators are stood in for, and by what."""

from collections.abc import Callable
from typing import Any

import mindspore

from mindnlp_dp_plugin.cpu_operators.add import add
from mindnlp_dp_plugin.cpu_operators.blas import compute_in_pieces
from mindnlp_dp_plugin.cpu_operators.cross_entropy import cross_entropy
from mindnlp_dp_plugin.cpu_operators.divide import divide
from mindnlp_dp_plugin.cpu_operators.gelu import gelu
from mindnlp_dp_plugin.cpu_operators.layer_norm import layer_norm
from mindnlp_dp_plugin.cpu_operators.linear import linear
from mindnlp_dp_plugin.cpu_operators.matmul import matmul
from mindnlp_dp_plugin.cpu_operators.memory import keep_freed_memory
from mindnlp_dp_plugin.cpu_operators.softmax import softmax
from mindnlp_dp_plugin.patching import Replacements


def routes() -> list[tuple[Any, str, Callable]]:
    """Who has an operator, under which name, and what is called in its place, with the operator as first argument."""
    from mindnlp.core import ops
    from mindnlp.core.nn import functional
    from mindnlp.core.nn.modules import normalization

    return [
        (functional, "linear", linear),
        (ops, "matmul", matmul),
        (functional, "gelu", gelu),
        (functional, "softmax", softmax),
        (functional, "layer_norm", layer_norm),
        (normalization, "layer_norm", layer_norm),
        (functional, "cross_entropy", cross_entropy),
        (mindspore.Tensor, "__truediv__", divide),
        (mindspore.Tensor, "__add__", add),
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
    for owner, name, operator in routes():
        replacements.stand_in(owner, operator, name)
