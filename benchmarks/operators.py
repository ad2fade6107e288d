"""The plugin's CPU operators beside those MindNLP calls, forward and backward, on one core.

    taskset --cpu-list 0 python benchmarks/operators.py

Shapes are BERT-base's with 8 rows of 128 tokens. Writes ``benchmarks/results/operators_<cpu>_<date>.json`` and ``.md``.
"""

import statistics
import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore
import numpy as np
from mindnlp.core import ops as core_ops
from mindnlp.core.nn import functional

from benchmarks.record import write_results
from mindnlp_dp_plugin.cpu_operators.activations import gelu
from mindnlp_dp_plugin.cpu_operators.add import add
from mindnlp_dp_plugin.cpu_operators.cross_entropy import cross_entropy
from mindnlp_dp_plugin.cpu_operators.divide import divide
from mindnlp_dp_plugin.cpu_operators.dropout import dropout
from mindnlp_dp_plugin.cpu_operators.layer_norm import layer_norm
from mindnlp_dp_plugin.cpu_operators.linear import linear
from mindnlp_dp_plugin.cpu_operators.masked_fill import masked_fill
from mindnlp_dp_plugin.cpu_operators.matmul import matmul
from mindnlp_dp_plugin.cpu_operators.memory import keep_freed_memory
from mindnlp_dp_plugin.cpu_operators.softmax import softmax
from mindnlp_dp_plugin.cpu_operators.view import contiguous

ROUNDS = 15
CHANCE = np.random.default_rng(0)


def tensor(*shape):
    return mindspore.Tensor(CHANCE.standard_normal(shape).astype(np.float32))


MASK = tensor(8, 1, 1, 128)
IS_MASKED = mindspore.Tensor(CHANCE.random((8, 1, 1, 128)) < 0.5)


def heads(tensor):
    """What a linear layer made, as attention sees it: a transposed view."""
    return tensor.permute(0, 2, 1, 3)


def scores(product, queries, keys):
    return product(heads(queries), heads(keys).swapaxes(-1, -2))


def context(product, weights, values):
    return heads(product(weights, heads(values))).reshape(8, 128, 768)


def normalise(normalisation, input, weight, bias):
    return normalisation(input, (768,), weight, bias)


def divide_by_8(division, scores):
    return division(scores, 8.0)


def add_mask(addition, scores):
    return addition(scores, MASK)


def mask(filling, scores):
    return filling(scores, IS_MASKED, -1e9)


def in_order(copying, projected):
    return copying(heads(projected))


def to_classes(loss, logits):
    return loss(logits, mindspore.Tensor(np.arange(len(logits))))


def cases():
    """Name, the routed operator, MindNLP's, how it is called, its arguments, how often in a layer of BERT-base."""

    def as_it_is(operator, *arguments):
        return operator(*arguments)

    linears = [
        (f"linear {num_in} -> {num_out}", linear, functional.linear, as_it_is,
         (tensor(8, 128, num_in), tensor(num_out, num_in), tensor(num_out)), count)
        for num_in, num_out, count in ((768, 768, 4), (768, 3072, 1), (3072, 768, 1))
    ]  # fmt: skip
    projected = tensor(8, 128, 12, 64)
    attention = tensor(8, 12, 128, 128)
    return [
        *linears,
        ("queries x keys", matmul, core_ops.matmul, scores, (projected, projected), 1),
        ("weights x values", matmul, core_ops.matmul, context, (attention, projected), 1),
        ("a number divides scores, 8 x 12 x 128 x 128", divide, mindspore.Tensor.__truediv__, divide_by_8,
         (attention,), 1),
        ("scores and a mask", add, mindspore.Tensor.__add__, add_mask, (attention,), 1),
        ("scores where a mask is False", masked_fill, core_ops.masked_fill, mask, (attention,), 0),
        ("heads in order", contiguous, mindspore.Tensor.contiguous, in_order, (projected,), 0),
        ("dropout, 1024 x 768", dropout, functional.dropout, as_it_is, (tensor(8, 128, 768), 0.1), 2),
        ("softmax, 8 x 12 x 128 x 128", softmax, functional.softmax, as_it_is, (attention,), 1),
        ("GELU, 1024 x 3072", gelu, functional.gelu, as_it_is, (tensor(8, 128, 3072),), 1),
        ("LayerNorm, 1024 x 768", layer_norm, functional.layer_norm, normalise,
         (tensor(8, 128, 768), tensor(768), tensor(768)), 2),
        ("cross entropy, 1024 x 30522, of a masked language model",
         cross_entropy, functional.cross_entropy,
         to_classes, (tensor(1024, 30522),), 0),
    ]  # fmt: skip


def step(function, arguments):
    """Forward and backward, from a gradient of the result that is there already."""
    gradients = mindspore.ops.GradOperation(get_all=True, sens_param=True)(lambda *inputs: function(*inputs))
    of_result = tensor(*function(*arguments).shape)
    return lambda: gradients(*arguments, of_result)


def main():
    dp.uninstall()
    mindspore.runtime.launch_blocking()
    keep_freed_memory()
    rows = []
    for name, routed, stock, call, arguments, count in cases():
        ways = {"stock": stock, "routed": partial(routed, stock)}
        steps = {way: step(partial(call, operator), arguments) for way, operator in ways.items()}
        seconds = {way: [] for way in ways}
        for number in range(2 + ROUNDS):
            for way, run in steps.items():
                began = time.perf_counter()
                run()
                if number >= 2:
                    seconds[way].append(time.perf_counter() - began)
        medians = {way: statistics.median(taken) * 1e3 for way, taken in seconds.items()}
        rows.append({"operator": name, "per_layer": count, **medians})
    saved = sum(row["per_layer"] * (row["stock"] - row["routed"]) for row in rows) * 12 / 1e3
    lines = ["| forward and backward | MindNLP's, ms | routed, ms | per layer |", "| --- | --- | --- | --- |"]
    lines += [f"| {row['operator']} | {row['stock']:.1f} | {row['routed']:.1f} | {row['per_layer']} |" for row in rows]
    lines.append(f"\nOver the 12 layers of BERT-base: {saved:.2f} s a step saved.")
    write_results("operators", {"rows": rows, "saved_seconds": saved}, "\n".join(lines))


if __name__ == "__main__":
    main()
