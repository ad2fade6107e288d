"""Length grouping and dynamic padding against padding to the maximal length: samples per second on two ranks.

    python benchmarks/length_grouping.py --data ../shared/data

BERT-tiny (2 layers, 128 wide) trained from nothing, 2 ranks x 16 rows; the ways of padding take turns within one job
per data set. Accuracy is to be judged on sst2: the 688 reviews of imdb_sample are too few for any. Under 4 minutes on
an idle machine; leave it so meanwhile. Writes .json, .md and .png of
benchmarks/results/length-grouping_<hardware>_<date>.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from matplotlib.figure import Figure
from record import write_results

PROGRAM = Path(__file__).parent / "programs" / "padding_runs.py"
CASES = [  # data set, maximal length, epochs, seeds
    ("sst2", 64, 1, 2),
    ("imdb_sample", 256, 1, 1),
    ("imdb_sample", 512, 1, 1),
]
WAYS = ("fixed", "dynamic", "grouped")


def measure(data, name, max_length, epochs, num_seeds):
    with tempfile.TemporaryDirectory() as folder:
        words = [PROGRAM, folder, data / name, max_length, epochs, num_seeds]
        command = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", 2, "--log-dir", f"{folder}/logs"]
        subprocess.run([str(word) for word in (*command, *words)], check=True)
        found = json.loads(Path(folder, "runs.json").read_text(encoding="utf-8"))
    return {"data": name, "max_length": max_length, "epochs": epochs, **found, **compare(found["runs"])}


def compare(runs):
    """Medians over the seeds, and each way's samples per second over those of fixed padding with the same seed."""

    def median(way, name):
        return statistics.median(run[name] for run in runs if run["way"] == way)

    def ratio(way):
        speeds = {key: [run["samples_per_second"] for run in runs if run["way"] == key] for key in (way, "fixed")}
        return statistics.median(fast / slow for fast, slow in zip(speeds[way], speeds["fixed"]))

    names = ("samples_per_second", "tokens_per_row", "accuracy")
    return {
        "medians": {way: {name: median(way, name) for name in names} for way in WAYS},
        "speed_over_fixed": {way: ratio(way) for way in WAYS},
    }


def summarise(cases):
    lines = [
        "| data | cut to | tokens a row has | padding | tokens computed a row | samples/s | over fixed | accuracy |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in cases:
        for way in WAYS:
            found = case["medians"][way]
            lines.append(
                f"| {case['data']} | {case['max_length']} | {case['mean_length']:.0f} | {way} "
                f"| {found['tokens_per_row']:.0f} | {found['samples_per_second']:.1f} "
                f"| {case['speed_over_fixed'][way]:.2f} | {found['accuracy']:.3f} |"
            )
    return "\n".join(lines)


def draw(cases, path):
    figure = Figure(figsize=(4 * len(cases), 3.6), layout="constrained")
    for axes, case in zip(figure.subplots(1, len(cases)), cases):
        for way, colour in zip(WAYS, ("tab:gray", "tab:orange", "tab:blue")):
            found = case["medians"][way]
            [bar] = axes.bar(way, found["samples_per_second"], color=colour)
            axes.bar_label(axes.containers[-1], [f"{case['speed_over_fixed'][way]:.2f}x"])
            note = f"{found['tokens_per_row']:.0f} tokens\naccuracy\n{found['accuracy']:.3f}"
            axes.text(bar.get_x() + bar.get_width() / 2, 0, note, ha="center", va="bottom", color="white", fontsize=8)
        axes.set(title=f"{case['data']}, cut to {case['max_length']} tokens", ylabel="samples/s, 2 ranks")
        axes.margins(y=0.12)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with sst2 and imdb_sample")
    arguments = parser.parse_args()
    cases = [measure(arguments.data.absolute(), *case) for case in CASES]
    command = f"python benchmarks/length_grouping.py --data {arguments.data}"
    summary = f"`{command}`\n\n{summarise(cases)}"
    path = write_results("length-grouping", {"command": command, "cases": cases}, summary)
    draw(cases, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
