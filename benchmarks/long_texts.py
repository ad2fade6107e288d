"""Short and long texts, small and large batches, beside torch: does a step fall off a cliff anywhere?

    python benchmarks/long_texts.py --torch PYTHON

Whole steps of both Trainers in one process on one core, of small models. Writes
``benchmarks/results/long-texts_<cpu>_<date>.json``, ``.md`` and ``.png``. Wants an idle machine.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from matplotlib.figure import Figure
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from benchmarks.speed import on_one_core, run, run_torch

FAMILIES = ("BERT-mini", "Llama-mini")
SIZES = [(1, 32), (64, 32), (1, 128), (8, 128), (64, 128), (1, 512), (4, 512), (16, 512), (1, 2048), (4, 2048)]
STEPS = 4
COLOURS = ("#2a78d6", "#e87ba4")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", required=True, help="a Python that has torch, transformers and accelerate")
    python = parser.parse_args().torch
    cases = [(family, *size) for family in FAMILIES for size in SIZES]
    measured = [compare(python, *case) for case in track(cases, "sizes")]
    path = write_results("long-texts", {"measured": measured}, summary(measured))
    draw(measured).savefig(path.with_suffix(".png"), dpi=120)


def compare(python, family, rows, tokens):
    """Seconds of a step, the median, and peak memory in bytes, of both sides."""
    with tempfile.TemporaryDirectory() as name, on_one_core():
        (ours,) = run(Path(name, "ours"), "family_steps", family, STEPS, rows, tokens, ranks=1)
        (torch,) = run_torch(python, Path(name, "torch"), family, STEPS, rows, tokens, ranks=1)
    sides = {"plugin": ours, "torch": torch}
    return {
        "family": family, "rows": rows, "tokens": tokens,
        "seconds": {side: statistics.median(of_side["seconds"]) for side, of_side in sides.items()},
        "peak_memory": {side: of_side["peak_memory"] for side, of_side in sides.items()},
    }  # fmt: skip


def ratio(case):
    """Rows per second over torch's."""
    return case["seconds"]["torch"] / case["seconds"]["plugin"]


def summary(measured):
    lines = [
        "Tokens per second on one core, over torch's, and the process's peak memory.\n",
        "| model | rows x tokens | tokens/s | torch | ratio | peak, MB | torch |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in measured:
        tokens = case["rows"] * case["tokens"]
        ours, torch = (tokens / case["seconds"][side] for side in ("plugin", "torch"))
        peaks = [f"{case['peak_memory'][side] / 2**20:.0f}" for side in ("plugin", "torch")]
        size = f"{case['rows']} x {case['tokens']}"
        lines.append(
            f"| {case['family']} | {size} | {ours:.0f} | {torch:.0f} | {ratio(case):.2f} | {' | '.join(peaks)} |"
        )
    return "\n".join(lines)


def draw(measured):
    """Ratio by size, a line for each model."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    names = [f"{rows} x {tokens}" for rows, tokens in SIZES]
    for family, colour in zip(FAMILIES, COLOURS):
        ratios = [ratio(case) for case in measured if case["family"] == family]
        axes.plot(names, ratios, "o-", color=colour, label=family)
    axes.axhline(1, color="#999999", linewidth=0.8)
    axes.set(xlabel="rows x tokens", ylabel="tokens per second over torch's", ylim=(0, None))
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main()
