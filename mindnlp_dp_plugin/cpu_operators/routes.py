"""Which of MindNLP's operators are replaced, and by what."""

from collections.abc import Callable
from functools import partial
from typing import Any

import mindspore

from mindnlp_dp_plugin.cpu_operators.activations import gelu, silu
from mindnlp_dp_plugin.cpu_operators.adam import adam, adamw_step
from mindnlp_dp_plugin.cpu_operators.add import add
from mindnlp_dp_plugin.cpu_operators.blas import compute_in_pieces
from mindnlp_dp_plugin.cpu_operators.clip_grad_norm import clip_grad_norm_
from mindnlp_dp_plugin.cpu_operators.cross_entropy import cross_entropy
from mindnlp_dp_plugin.cpu_operators.divide import divide
from mindnlp_dp_plugin.cpu_operators.dropout import dropout
from mindnlp_dp_plugin.cpu_operators.embedding import embedding
from mindnlp_dp_plugin.cpu_operators.gather import gather
from mindnlp_dp_plugin.cpu_operators.layer_norm import layer_norm
from mindnlp_dp_plugin.cpu_operators.linear import linear
from mindnlp_dp_plugin.cpu_operators.masked_fill import masked_fill, where
from mindnlp_dp_plugin.cpu_operators.matmul import matmul
from mindnlp_dp_plugin.cpu_operators.mean import mean
from mindnlp_dp_plugin.cpu_operators.memory import keep_freed_memory
from mindnlp_dp_plugin.cpu_operators.multiply import multiply
from mindnlp_dp_plugin.cpu_operators.rotary import rotate, rotate_by_places, rotate_half
from mindnlp_dp_plugin.cpu_operators.scores import attend
from mindnlp_dp_plugin.cpu_operators.softmax import masked_softmax, softmax
from mindnlp_dp_plugin.cpu_operators.square import power
from mindnlp_dp_plugin.cpu_operators.view import add_in_place, contiguous, view
from mindnlp_dp_plugin.patching import Patches

# Families whose rotary positions turn the first half of a head with the second; others turn neighbours.
ROTARY = {
    ("apply_rotary_pos_emb", rotate): [
        *("dbrx", "gemma", "gemma2", "jetmoe", "llama", "mistral", "mllama", "olmo", "phi3"),
    ],
    ("apply_rotary_pos_emb", rotate_by_places): [
        *("falcon", "gpt_neox", "idefics", "mixtral", "persimmon", "phi", "qwen2", "qwen2_moe", "stablelm"),
        "starcoder2",
    ],
    ("rotate_half", rotate_half): [
        *("baichuan", "chatglm", "clvp", "cogvlm", "esm", "gpt_neox_japanese", "minicpm", "minicpm3", "qwen2_vl"),
    ],
}
ROUTES_OF_MODELS = [
    (f"mindnlp.transformers.models.{family}.modeling_{family}", *route)
    for route, families in ROTARY.items()
    for family in families
]
# Of families whose scores are scaled, masked, normalised, dropped and multiplied with values, and nothing else.
MODULES_OF_ATTENTION = [
    (f"mindnlp.transformers.models.{family}.modeling_{family}", name)
    for family, name in (
        ("bert", "BertSelfAttention"),
        ("electra", "ElectraSelfAttention"),
        ("gpt2", "GPT2Attention"),
        ("llama", "LlamaAttention"),
        ("mistral", "MistralAttention"),
        ("qwen2", "Qwen2Attention"),
        ("roberta", "RobertaSelfAttention"),
        ("t5", "T5Attention"),
    )
]
DEBERTAS = [f"mindnlp.transformers.models.{family}.modeling_{family}" for family in ("deberta", "deberta_v2", "sew_d")]


def routes() -> list[tuple[Any, str, Callable]]:
    """The owner and name of each operator, and its replacement, which gets the operator as first argument."""
    from mindnlp.core import ops
    from mindnlp.core.nn import functional, utils
    from mindnlp.core.nn.modules import normalization
    from mindnlp.core.ops import optim

    return [
        (functional, "linear", linear),
        (ops, "matmul", matmul),
        (ops, "bmm", matmul),
        (functional, "embedding", embedding),
        (functional, "gelu", gelu),
        (functional, "silu", silu),
        (functional, "softmax", softmax),
        (ops, "softmax", softmax),
        (functional, "dropout", dropout),
        (ops, "gather", gather),
        (ops, "masked_fill", masked_fill),
        (ops, "where", where),
        (functional, "layer_norm", layer_norm),
        (ops, "mean", mean),
        (ops, "pow", power),
        (normalization, "layer_norm", layer_norm),
        (functional, "cross_entropy", cross_entropy),
        (mindspore.Tensor, "__truediv__", divide),
        (mindspore.Tensor, "__add__", add),
        (mindspore.Tensor, "__mul__", multiply),
        (mindspore.Tensor, "__matmul__", matmul),
        (mindspore.Tensor, "__pow__", power),
        (mindspore.Tensor, "pow", power),
        (mindspore.Tensor, "contiguous", contiguous),
        (mindspore.Tensor, "masked_fill", masked_fill),
        (mindspore.Tensor, "reshape", view),
        (mindspore.Tensor, "view", view),
        (mindspore.Tensor, "__iadd__", add_in_place),
        (utils, "clip_grad_norm_", clip_grad_norm_),
        (optim, "raw_adam", adam),
    ]


def route(patches: Patches, when_imported: Callable[[str, Callable], None]) -> None:
    """Replace the operators; as ``cpu_operators.route``, but whatever the device."""
    keep_freed_memory()
    compute_in_pieces(patches)
    for owner, name, operator in routes():
        patches.stand_in(owner, operator, name)
    for module, name, operator in ROUTES_OF_MODELS:
        when_imported(module, partial(patches.stand_in, stand_in=operator, name=name))
    for module, name in MODULES_OF_ATTENTION:
        when_imported(module, partial(_route_attention, patches, name))
    when_imported("mindnlp.core.optim.adamw", lambda module: patches.stand_in(module.AdamW, adamw_step, "step"))
    for name in DEBERTAS:
        when_imported(name, lambda module: patches.stand_in(module.XSoftmax, masked_softmax, "__call__"))


def _route_attention(patches, name, module):
    patches.stand_in(getattr(module, name), attend, "forward")
