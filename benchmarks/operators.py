"""The CPU operators of ``mindnlp_dp_plugin.operators`` beside those MindNLP calls, forward and backward, on one core.

    taskset --cpu-list 0 python benchmarks/operators.py

Shapes are BERT-base's with 8 rows of 128 tokens. Writes ``benchmarks/results/operators_<cpu>_<date>.json`` and ``.md``.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore
import numpy as np
from mindnlp.core import ops as core_ops
from mindnlp.core.nn import functional

from benchmarks.record import write_results
from mindnlp_dp_plugin import operators

ROUNDS = 15
CHANCE = np.random.default_rng(0)


def tensor(*shape):
    return mindspore.Tensor(CHANCE.standard_normal(shape).astype(np.float32))


def heads():
    """As attention sees them: a view of what a linear layer made."""
    return tensor(8, 128, 12, 64).swapaxes(1, 2)


def cases():
    """Name, the routed operator, what stock calls, its arguments, and how often a layer of BERT-base has it."""
    linear = [
        (f"linear {num_in} -> {num_out}", "linear", functional.linear,
         (tensor(8, 128, num_in), tensor(num_out, num_in), tensor(num_out)), count)
        for num_in, num_out, count in ((768, 768, 4), (768, 3072, 1), (3072, 768, 1))
    ]  # fmt: skip
    return [
        *linear,
        ("GELU, 1024 x 3072", "gelu", functional.gelu, (tensor(8, 128, 3072),), 1),
        ("queries x keys", "matmul", core_ops.matmul, (heads(), heads().swapaxes(-1, -2)), 1),
        ("weights x values", "matmul", core_ops.matmul, (tensor(8, 12, 128, 128), heads()), 1),
    ]


def step(function, arguments):
    weights = tensor(*function(*arguments).shape)
    return mindspore.grad(lambda *t: (function(*t) * weights).sum(), tuple(range(len(arguments))))


def main():
    dp.uninstall()
    mindspore.runtime.launch_blocking()
    rows = []
    for name, routed, stock, arguments, count in cases():
        operator = getattr(operators, routed)
        ways = {
            "stock": step(stock, arguments),
            "routed": step(lambda *t, o=operator, s=stock: o(s, *t), arguments),
        }
        seconds = {way: [] for way in ways}
        for number in range(2 + ROUNDS):
            for way, run in ways.items():
                began = time.perf_counter()
                run(*arguments)
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
