"""The example and the recipe command, as a student runs them, and the folder the recipe leaves."""

import ast
import json
import re
import subprocess
import sys

import mindspore
import pytest

from mindnlp_dp_plugin.recipes import generate_reviews, save_small_bert
from mindnlp_dp_plugin.recipes.report import read_curves
from tests.harness import REPOSITORY, run
from tests.recipes.test_tables import write

COMMAND = [sys.executable, "-m", "mindnlp_dp_plugin.cli"]


def run_on_two_ranks(folder, *words):
    finished = run([*COMMAND, *words], cwd=folder)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def run_recipe(folder, name, *options, backend="auto"):
    return run_on_two_ranks(folder, "recipe", name, "--nproc", 2, "--backend", backend, *options)


def check_run_folder(folder, splits):
    """Everything is there, and nothing half-written or needed only on the way."""
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["checkpoints", "metrics.json", "model", "report.html", "tensorboard"]
    results = json.loads((folder / "metrics.json").read_text())
    assert list(results["splits"]) == splits and results["ranks"] == 2
    assert results["versions"]["mindspore"] == mindspore.__version__
    curves = read_curves(folder / "tensorboard")
    for tag in ("loss", "learning_rate", "samples_per_second", "communication_wait_seconds"):
        assert len(curves[f"train/{tag}"]) >= 2, tag
    assert len(list((folder / "tensorboard").glob("events*"))) >= 1
    page = (folder / "report.html").read_text()
    assert page.count("<svg") == 1 + len(splits) and results["command"].split()[0] in page
    return results


def test_embedded_default_learns_and_says_where_things_are(tmp_path):
    words = run_recipe(tmp_path, "roberta-imdb", "--epochs", 2)
    accuracy, f1 = map(float, re.search(r"accuracy ([\d.]+), F1 ([\d.]+) on 500 dev rows", words).groups())
    assert accuracy > 0.75 and f1 > 0.7, "a coin would get 0.5"
    assert "model: roberta_imdb_output/model    report: roberta_imdb_output/report.html" in words
    assert words.count("'train_runtime'") == 1
    assert len(list((tmp_path / "mindnlp_dp_logs").glob("*/rank_*.log"))) == 2
    results = check_run_folder(tmp_path / "roberta_imdb_output", ["dev"])
    assert results["splits"]["dev"]["accuracy"] == pytest.approx(accuracy, abs=6e-4)
    assert results["command"].startswith("mindnlp-dp recipe roberta-imdb --nproc 2 --backend auto")
    assert "--epochs 2" in results["command"]


def test_the_example_trains_scores_and_predicts(tmp_path):
    script = REPOSITORY / "examples" / "roberta_imdb" / "roberta_imdb.py"
    words = run_on_two_ranks(tmp_path, "run", "--nproc", 2, script, "--model", "small-bert", "--epochs", 1)
    assert float(re.search(r"accuracy ([\d.]+) on 500 test rows", words)[1]) > 0.65, "a coin would get 0.5"
    assert "good  The plot was clever" in words and "bad   The acting was dull" in words
    assert (tmp_path / "roberta_imdb_output" / "model" / "config.json").exists()


def test_bert_on_a_csv_of_ones_own(tmp_path):
    reviews = generate_reviews(120, seed=5)
    rows = [{"text": text, "label": ("bad", "good")[label]} for text, label in zip(*reviews.values())]
    write(tmp_path / "reviews.csv", rows)
    run_recipe(tmp_path, "bert-imdb", "--dataset", "reviews.csv", "--epochs", 1, backend="mccl")
    check_run_folder(tmp_path / "bert_imdb_output", ["dev"])
    config = json.loads((tmp_path / "bert_imdb_output" / "model" / "config.json").read_text())
    assert config["model_type"] == "bert" and config["label2id"] == {"bad": 0, "good": 1}


@pytest.mark.slow
def test_pairs_in_three_classes_with_lora_resumed_and_the_snippet_of_the_report(tmp_path):
    """Ends with the model that was trained: loaded from the folder, it scores what the report says."""
    chance = generate_reviews(400, seed=3)
    good = [text for text, label in zip(*chance.values()) if label]
    bad = [text for text, label in zip(*chance.values()) if not label]
    kinds = {"both": (good, good), "neither": (bad, bad), "one": (good, bad)}
    rows = [
        {"premise": one[number], "hypothesis": other[-1 - number], "verdict": kind}
        for number in range(60)
        for kind, (one, other) in kinds.items()
    ]
    (tmp_path / "pairs").mkdir()
    write(tmp_path / "pairs" / "train.jsonl", rows[:144])
    dev = write(tmp_path / "pairs" / "dev.jsonl", rows[144:])
    save_small_bert(tmp_path / "bert", good + bad, num_labels=2)  # its head is for other classes, and begun anew
    recipe = ["recipe", "classification", "--nproc", 2, "--dataset", "pairs", "--model", "bert", "--output-dir", "out"]
    recipe += ["--lora", "--learning-rate", 3e-3]
    words = run_on_two_ranks(tmp_path, *recipe, "--epochs", 1)
    assert "3 classes (rows to train on): both (48), neither (48), one (48)" in words
    (*first, _) = check_run_folder(tmp_path / "out", ["dev"])["history"]
    run_on_two_ranks(tmp_path, *recipe, "--epochs", 3, "--resume")
    results = check_run_folder(tmp_path / "out", ["dev"])
    history = results["history"]
    assert history[: len(first)] == first, "the first epoch is not trained again"
    assert [entry["epoch"] for entry in history if "eval_accuracy" in entry] == [1, 2, 3]
    names = results["label_names"]
    assert names == ["both", "neither", "one"]
    scores = results["splits"]["dev"]
    assert (
        sum(map(sum, scores["confusion_matrix"])) == 36 and [each["rows"] for each in scores["per_class"]] == [12] * 3
    )

    snippet = re.search(r"<h2>Use the model</h2><pre>(.*?)</pre>", (tmp_path / "out" / "report.html").read_text(), re.S)
    lines = snippet[1].replace("&#x27;", "'").replace("&quot;", '"').splitlines()
    assert len(lines) == 3
    printed = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True)
    (answer,) = ast.literal_eval(printed.stdout.splitlines()[-1])
    assert answer["label"] in names and 1 / 3 <= answer["score"] <= 1, printed.stderr

    assert predicted_counts(tmp_path / "out" / "model", dev, names) == [
        sum(c) for c in zip(*scores["confusion_matrix"])
    ]


def predicted_counts(folder, file, names):
    """How often a saved model predicts each class, row by row in this process."""
    from mindnlp.transformers import AutoModelForSequenceClassification, AutoTokenizer

    model = AutoModelForSequenceClassification.from_pretrained(str(folder))
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    assert model.config.id2label == dict(enumerate(names))
    model.set_train(False)
    counts = [0] * len(names)
    for line in file.read_text().splitlines():
        row = json.loads(line)
        tokens = tokenizer(row["premise"], row["hypothesis"], truncation=True, max_length=128)
        inputs = {name: mindspore.Tensor([values]) for name, values in tokens.items()}
        counts[model(**inputs).logits.asnumpy().argmax().item()] += 1
    return counts
