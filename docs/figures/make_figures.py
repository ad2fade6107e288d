"""Draws the figures of docs/: one from arithmetic, one from a trace, one from what ``make bench`` measured.

python docs/figures/make_figures.py [--trace trace.json of ``run --profile``] [--speed FILE of benchmarks/results]
"""

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

plt.switch_backend("svg")
plt.rcParams["svg.hashsalt"] = "mindnlp-dp-plugin"  # the same file for the same figure

FOLDER = Path(__file__).parent
GRADIENT_GB, LINK_GB_PER_S = 0.44, 10
COLORS = {
    "data": "#bbbbbb",
    "forward": "#88ccee",
    "backward": "#4477aa",
    "wait for gradients": "#cc6677",
    "clip": "#ddcc77",
    "optimizer": "#117733",
}


def save(figure, name):
    figure.savefig(FOLDER / name, bbox_inches="tight", metadata={"Date": None})


def parameter_server_and_ring():
    ranks = np.arange(2, 65)
    figure, axes = plt.subplots(figsize=(6, 3))
    axes.plot(ranks, GRADIENT_GB / LINK_GB_PER_S * (ranks - 1), label="parameter server: C (N - 1)")
    axes.plot(ranks, GRADIENT_GB / LINK_GB_PER_S * 2 * (ranks - 1) / ranks, label="ring: 2 K (N - 1) / N")
    axes.set(xlabel="ranks", ylabel="seconds", yscale="log")
    axes.legend(frameon=False)
    save(figure, "parameter_server_and_ring.svg")


def step(trace):
    """The last whole step of a trace: for each rank its phases, and below them the buckets on their way."""
    events = [event for event in json.loads(Path(trace).read_text())["traceEvents"] if event["ph"] == "X"]
    begins = sorted(event["ts"] for event in events if event["name"] == "forward" and event["pid"] == 0)
    begin, end = begins[-2], begins[-1]
    lanes = sorted({(event["pid"], event["tid"] != "step") for event in events})
    figure, axes = plt.subplots(figsize=(9, 2.6))
    for event in events:
        if not begin <= event["ts"] + event["dur"] / 2 < end:
            continue
        lane = lanes.index((event["pid"], event["tid"] != "step"))
        color = COLORS.get(event["name"], "#aa4499")
        axes.barh(
            lane, event["dur"] / 1e3, left=(event["ts"] - begin) / 1e3, color=color, edgecolor="white", height=0.8
        )
    axes.set_yticks(
        range(len(lanes)), [f"rank {rank}: {'all-reduces' if is_bucket else 'step'}" for rank, is_bucket in lanes]
    )
    axes.invert_yaxis()
    axes.set(xlabel="milliseconds", xlim=(0, (end - begin) / 1e3))
    patches = [plt.Rectangle((0, 0), 1, 1, color=color) for color in [*COLORS.values(), "#aa4499"]]
    axes.legend(
        patches, [*COLORS, "a bucket"], ncols=7, fontsize=7, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1)
    )
    save(figure, "step.svg")


def scaling(speed):
    """Rows per second in training BERT-base, by who averages the gradients."""
    rows = json.loads(Path(speed).read_text())["measurements"]["bert_base"]
    (samples,) = [row["samples_per_second"] for row in rows if "samples_per_second" in row]
    figure, axes = plt.subplots(figsize=(7, 2.1))
    positions = range(len(samples), 0, -1)
    bars = axes.barh(
        positions, samples.values(), color=["#bbbbbb"] * 2 + ["#cc6677"] * 2 + ["#117733", "#88ccee", "#117733"]
    )
    axes.bar_label(bars, fmt="%.2f", padding=3)
    axes.set_yticks(positions, samples)
    axes.set(xlabel="rows per second", xlim=(0, 1.12 * max(samples.values())))
    save(figure, "scaling.svg")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trace")
    parser.add_argument("--speed")
    wanted = parser.parse_args()
    parameter_server_and_ring()
    if wanted.trace:
        step(wanted.trace)
    if wanted.speed:
        scaling(wanted.speed)
