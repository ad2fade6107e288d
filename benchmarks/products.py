"""Matrix products cut between rows, beside the BLAS library's own threads, by turns: on an idle machine.

    python benchmarks/products.py

Shapes are BERT-base's with 8 rows of 128 tokens, forward and backward. Writes
``benchmarks/results/products_<hardware>_<date>.json`` and ``.md``.
"""

import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import threadpoolctl

from benchmarks.record import write_results
from mindnlp_dp_plugin.cpu_operators import blas
from mindnlp_dp_plugin.patching import Patches

ROUNDS = 15
SHAPES = (  # rows, inner, columns
    (1024, 768, 768),
    (1024, 768, 3072),
    (1024, 3072, 768),
    (768, 1024, 3072),
    (3072, 1024, 768),
    (1024, 768, 30522),
)


def main():
    libraries = threadpoolctl.ThreadpoolController().select(user_api="blas")
    num_threads = max(library.num_threads for library in libraries.lib_controllers)
    blas.compute_in_pieces(Patches())
    seconds = {shape: compare(*shape, libraries, num_threads) for shape in SHAPES}
    lines = [
        f"{num_threads} threads. Medians of {ROUNDS}.",
        "",
        "| rows x inner x columns | ms, cut | ms, BLAS's threads | |",
    ]
    lines.append("| --- | --- | --- | --- |")
    rows = [(" x ".join(map(str, shape)), *pair) for shape, pair in seconds.items()]
    rows.append(("all", *map(sum, zip(*seconds.values()))))
    lines += [f"| {name} | {1e3 * cut:.2f} | {1e3 * stock:.2f} | {cut / stock:.2f} |" for name, cut, stock in rows]
    write_results("products", {name: {"cut": cut, "stock": stock} for name, cut, stock in rows}, "\n".join(lines))


def compare(rows, inner, columns, libraries, num_threads):
    """Median seconds of both ways for one shape."""
    chance = np.random.default_rng(0)
    left = chance.standard_normal((rows, inner), dtype=np.float32)
    right = chance.standard_normal((columns, inner), dtype=np.float32).T
    cut, stock = [], []
    for _ in range(ROUNDS):
        cut.append(seconds(lambda: blas.product(left, right)))
        with libraries.limit(limits=num_threads):
            stock.append(seconds(lambda: left @ right))
    return statistics.median(cut), statistics.median(stock)


def seconds(function):
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
