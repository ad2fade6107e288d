"""Long texts beside torch: memory and speed of six families' attention, and whether a step falls off a cliff anywhere.

    python benchmarks/long_texts.py --torch PYTHON

Whole steps of both Trainers in one process on one core, of small models. A peak is what a process holds at most beyond
what it holds when the training begins. Writes ``benchmarks/results/long-texts_<cpu>_<date>.json``, ``.md`` and
``.png``. Wants an idle machine.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from matplotlib.figure import Figure
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.programs.family_sizes import MINIS
from benchmarks.record import write_results
from benchmarks.speed import on_one_core, run, run_torch

SIZES = [(8, 128), (4, 512), (4, 2048)]
STEPS = 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", required=True, help="a Python that has torch, transformers and accelerate")
    python = parser.parse_args().torch
    cases = [(family, *size) for family in MINIS for size in SIZES]
    measured = [compare(python, *case) for case in track(cases, "sizes")]
    path = write_results("long-texts", {"measured": measured}, summary(measured))
    draw(measured).savefig(path.with_suffix(".png"), dpi=120)


def compare(python, family, rows, tokens):
    """Seconds of a step, the median, and memory in bytes, of both sides."""
    with tempfile.TemporaryDirectory() as name, on_one_core():
        (ours,) = run(Path(name, "ours"), "family_steps", family, STEPS, rows, tokens, ranks=1)
        (torch,) = run_torch(python, Path(name, "torch"), family, STEPS, rows, tokens, ranks=1)
    sides = {"plugin": ours, "torch": torch}
    return {
        "family": family, "rows": rows, "tokens": tokens,
        "seconds": {side: statistics.median(of_side["seconds"]) for side, of_side in sides.items()},
        "peak_memory": {side: of_side["peak_memory"] for side, of_side in sides.items()},
        "memory_before": {side: of_side["memory_before"] for side, of_side in sides.items()},
    }  # fmt: skip


def speed(case):
    """Tokens per second over torch's."""
    return case["seconds"]["torch"] / case["seconds"]["plugin"]


def memory(case):
    """What training takes beyond what was held before, over torch's."""
    ours, torch = (case["peak_memory"][side] - case["memory_before"][side] for side in ("plugin", "torch"))
    return ours / torch


def summary(measured):
    lines = [
        "Tokens per second on one core, over torch's; what a process holds at most, and beyond what it held before.\n",
        "| model | rows x tokens | tokens/s | torch | ratio | peak, MB | torch | ratio | beyond, MB | torch | ratio |",
        "| --- " * 11 + "|",
    ]
    for case in measured:
        tokens = case["rows"] * case["tokens"]
        speeds = [tokens / case["seconds"][side] for side in ("plugin", "torch")]
        peaks = [case["peak_memory"][side] / 2**20 for side in ("plugin", "torch")]
        beyond = [peak - case["memory_before"][side] / 2**20 for peak, side in zip(peaks, ("plugin", "torch"))]
        cells = [f"{case['family']}", f"{case['rows']} x {case['tokens']}"]
        cells += [*(f"{each:.0f}" for each in speeds), f"{speed(case):.2f}"]
        cells += [*(f"{each:.0f}" for each in peaks), f"{peaks[0] / peaks[1]:.2f}"]
        cells += [*(f"{each:.0f}" for each in beyond), f"{memory(case):.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(measured):
    """Speed and memory beside torch's, a line for each model."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    names = [f"{rows} x {tokens}" for rows, tokens in SIZES]
    for axes, ratio, label in zip(
        figure.subplots(1, 2), (speed, memory), ("tokens per second over torch's", "memory of training over torch's")
    ):
        for family in MINIS:
            axes.plot(names, [ratio(case) for case in measured if case["family"] == family], "o-", label=family)
        axes.axhline(1, color="#999999", linewidth=0.8)
        axes.set(xlabel="rows x tokens", ylabel=label, ylim=(0, None))
        axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
