"""Length grouping and dynamic padding against padding to the maximal length: samples per second on two ranks.

    python benchmarks/length_grouping.py --data ../shared/data

A BERT, 128 wide, trained from nothing for an epoch, 2 ranks x 16 rows, both ways of padding in one job per data set.
Accuracy is to be judged on sst2: the 688 reviews of imdb_sample are too few for any. Takes some minutes; leave the
machine idle meanwhile. Writes .json, .md and .png of benchmarks/results/length-grouping_<hardware>_<date>.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

from matplotlib.figure import Figure
from record import write_results

PROGRAM = Path(__file__).parent / "programs" / "padding_runs.py"
CASES = [  # data set, maximal length, layers
    ("sst2", 64, 4),
    ("imdb_sample", 256, 2),
    ("imdb_sample", 512, 2),
]
WAYS = ("fixed", "grouped")


def measure(data, name, max_length, num_layers):
    with tempfile.TemporaryDirectory() as folder:
        words = [PROGRAM, folder, data / name, max_length, num_layers]
        command = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", 2, "--log-dir", f"{folder}/logs"]
        subprocess.run([str(word) for word in (*command, *words)], check=True)
        found = json.loads(Path(folder, "runs.json").read_text(encoding="utf-8"))
    speeds = {way: run["samples_per_second"] for way, run in found["runs"].items()}
    over_fixed = {way: speed / speeds["fixed"] for way, speed in speeds.items()}
    return {"data": name, "max_length": max_length, "num_layers": num_layers, **found, "speed_over_fixed": over_fixed}


def summarise(cases):
    lines = [
        "| data | cut to | layers | tokens a row | padding | tokens computed | samples/s | over fixed | accuracy |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in cases:
        for way in WAYS:
            run, ratio = case["runs"][way], case["speed_over_fixed"][way]
            error = math.sqrt(run["accuracy"] * (1 - run["accuracy"]) / case["rows_in_dev"])
            lines.append(
                f"| {case['data']} | {case['max_length']} | {case['num_layers']} | {case['mean_length']:.0f} | {way} "
                f"| {run['tokens_per_row']:.0f} | {run['samples_per_second']:.1f} | {ratio:.2f} "
                f"| {run['accuracy']:.3f} ± {error:.3f} |"
            )
    return "\n".join(lines)


def draw(cases, path):
    figure = Figure(figsize=(4 * len(cases), 3.6), layout="constrained")
    for axes, case in zip(figure.subplots(1, len(cases)), cases):
        for way, colour in zip(WAYS, ("tab:gray", "tab:blue")):
            run = case["runs"][way]
            [bar] = axes.bar(way, run["samples_per_second"], color=colour)
            axes.bar_label(axes.containers[-1], [f"{case['speed_over_fixed'][way]:.2f}x"])
            note = f"{run['tokens_per_row']:.0f} tokens a row\naccuracy {run['accuracy']:.3f}"
            axes.text(bar.get_x() + bar.get_width() / 2, 0, note, ha="center", va="bottom", color="white", fontsize=8)
        axes.set(title=f"{case['data']}, cut to {case['max_length']} tokens", ylabel="samples/s, 2 ranks")
        axes.margins(y=0.12)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with sst2 and imdb_sample")
    arguments = parser.parse_args()
    cases = [measure(arguments.data.absolute(), *case) for case in CASES]
    summary = summarise(cases)
    path = write_results("length-grouping", {"cases": cases}, summary)
    draw(cases, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
