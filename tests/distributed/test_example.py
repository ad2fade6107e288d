"""The example and the recipe command, as a student runs them, the folder a recipe leaves, and what is asked of it."""

import csv
import json
import math
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import mindspore
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mindnlp_dp_plugin.recipes import generate_reviews, save_small_bert
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.small_models import SAVERS
from mindnlp_dp_plugin.recipes.tasks import get_task
from tests.harness import REPOSITORY, run
from tests.recipes.test_causal_lm import chats
from tests.recipes.test_multi_label import NAMES, articles
from tests.recipes.test_regression import rated
from tests.recipes.test_tables import write
from tests.recipes.test_token_classification import sentences

COMMAND = [sys.executable, "-m", "mindnlp_dp_plugin.cli"]
RUN_FILES = ["checkpoints", "metrics.json", "model", "report.html", "run.yaml", "tensorboard"]


def run_command(folder, *words):
    finished = run([*COMMAND, *words], cwd=folder)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def run_recipe(folder, name, *options, backend="auto"):
    return run_command(folder, "recipe", name, "--nproc", 2, "--backend", backend, *options)


def read_curves(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def check_run_folder(folder, splits):
    """Everything is there, and nothing half-written or needed only on the way."""
    assert sorted(path.name for path in folder.iterdir()) == RUN_FILES
    results = json.loads((folder / "metrics.json").read_text())
    assert list(results["splits"]) == splits and results["ranks"] == 2
    assert results["versions"]["mindspore"] == mindspore.__version__
    for scores in results["splits"].values():
        assert 0 <= scores["macro_f1"] <= 1 and 0 <= scores["accuracy"] <= 1
    for name in ("majority", "tfidf"):
        baseline = results["baselines"][name]
        assert baseline["split"] == splits[-1] and 0 < baseline["accuracy"] <= 1 and 0 < baseline["macro_f1"] <= 1
    assert results["model"]["parameters"] > 10_000 and results["seconds"] > 0
    assert {split: sum(of.values()) for split, of in results["data"]["rows"].items() if split in splits} == {
        split: sum(each["rows"] for each in scores["per_class"]) for split, scores in results["splits"].items()
    }
    assert set(results["data"]["cut_texts"]) == {"train", *splits} and set(results["data"]["duplicates"]) == set(splits)
    return results


def check_curves(folder, results):
    curves = read_curves(folder / "tensorboard")
    for tag in ("loss", "learning_rate", "samples_per_second", "communication_wait_seconds"):
        assert len(curves[f"train/{tag}"]) >= 2, tag
    page = (folder / "report.html").read_text()
    evaluations = sum("eval_loss" in entry for entry in results["history"])
    assert page.count("<svg") == 1 + (evaluations > 1), "of losses, and of scores by epoch"
    assert page.count('<table class="matrix">') == len(results["splits"]) and page.count('<table class="bars">') == 2
    assert results["command"].split()[0] in page


def test_embedded_default_learns_and_says_what_it_did(tmp_path):
    words = run_recipe(tmp_path, "roberta-imdb", "--epochs", 1)
    assert "model: small-roberta, trained from nothing" in words
    assert "train: 4000 rows. Rows of each class: bad (2000), good (2000)" in words
    accuracy, f1 = map(
        float, re.search(r"accuracy ([\d.]+), macro F1 ([\d.]+), F1 of 'good' .* 500 dev", words).groups()
    )
    assert accuracy > 0.75 and f1 > 0.7, "a coin would get 0.5"
    assert "model: roberta_imdb_output/model    report: roberta_imdb_output/report.html" in words
    page = (tmp_path / "roberta_imdb_output" / "report.html").read_text()
    assert "recipe roberta-imdb --nproc 2 --config roberta_imdb_output/run.yaml --prove" in page
    assert "recipe roberta-imdb --config run.yaml --output-dir again" in page and "recipe classification" not in page
    lines = re.split(r"[\r\n]+", words)
    epochs = [line for line in lines if line.startswith("epoch ")]
    assert len(epochs) == 1 and all("macro F1" in line for line in epochs)
    noise = [line for line in lines if re.search("Warning|MS_ALLOC|Saving the dataset|{'", line)]
    assert not noise, "a library's warnings go to a file among the logs"
    (logs,) = (tmp_path / "mindnlp_dp_logs").iterdir()
    assert len(list(logs.glob("rank_*.log"))) == 2 and len(list(logs.glob("warnings_*.log"))) == 2
    folder = tmp_path / "roberta_imdb_output"
    results = check_run_folder(folder, ["dev"])
    check_curves(folder, results)
    assert results["label_names"] == ["bad", "good"] and results["data"]["num_rows"] == {"train": 4000, "dev": 500}
    assert results["data"]["rows"]["train"] == {"bad": 2000, "good": 2000}
    assert results["splits"]["dev"]["accuracy"] == pytest.approx(accuracy, abs=6e-4)
    assert results["model"] | {"parameters": 0} == {
        "name": "small-roberta",
        "parameters": 0,
        "pretrained": False,
        "origin": None,
        "why": None,
    }
    assert results["command"].startswith("mindnlp-dp recipe roberta-imdb --nproc 2 --backend auto")
    assert "--epochs 1" in results["command"]


def test_the_example_trains_scores_and_predicts(tmp_path):
    script = REPOSITORY / "examples" / "roberta_imdb" / "roberta_imdb.py"
    words = run_command(tmp_path, "run", "--nproc", 2, script, "--model", "small-bert", "--epochs", 1)
    assert float(re.search(r"accuracy ([\d.]+) on 500 test rows", words)[1]) > 0.65, "a coin would get 0.5"
    assert "good  The plot was clever" in words and "bad   The acting was dull" in words
    assert (tmp_path / "roberta_imdb_output" / "model" / "config.json").exists()


def write_reviews(path, num_rows=160):
    reviews = generate_reviews(num_rows, seed=5)
    rows = [{"text": text, "label": ("bad", "good")[label]} for text, label in zip(*reviews.values())]
    write(path, rows)
    return rows


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with reviews.csv and a BERT trained on it, with as many settings as go together."""
    folder = tmp_path_factory.mktemp("trained")
    write_reviews(folder / "reviews.csv")
    settings = "--epochs 2 --warmup-ratio 0.2 --weight-decay 0.1 --accumulation 2 --scheduler cosine --patience 1"
    settings += " --class-weights balanced --best-by accuracy --positive-label bad --max-length 32 --seed 7"
    recipe = ["bert-imdb", "--dataset", "reviews.csv", "--batch-size", 8, *settings.split(), "--output-dir", "run"]
    words = run_recipe(folder, *recipe, backend="mccl")
    return folder, words


@pytest.mark.slow
def test_settings_are_obeyed_written_down_and_repeated(trained):
    folder, words = trained
    results = check_run_folder(folder / "run", ["dev"])
    config = json.loads((folder / "run" / "model" / "config.json").read_text())
    assert config["model_type"] == "bert" and config["label2id"] == {"bad": 0, "good": 1}
    assert results["positive_label"] == "bad"
    assert results["splits"]["dev"]["f1"] == results["splits"]["dev"]["per_class"][0]["f1"]
    accuracies = [entry["eval_accuracy"] for entry in results["history"] if "eval_accuracy" in entry]
    assert results["splits"]["dev"]["accuracy"] == results["best"]["value"] == max(accuracies)
    rates = [entry["learning_rate"] for entry in results["history"] if "learning_rate" in entry]
    assert rates[0] < max(rates) and max(rates) <= 1e-3 and max(entry["epoch"] for entry in results["history"]) <= 2
    assert (
        results["data"]["cut_texts"]["train"] > 0 and "train: texts longer than --max-length, which were cut: " in words
    )
    run_command(folder, "recipe", "bert-imdb", "--config", "run/run.yaml", "--output-dir", "again", "--backend", "mccl")
    again = json.loads((folder / "again" / "metrics.json").read_text())
    again["settings"]["output_dir"] = results["settings"]["output_dir"]
    again["data"]["dataset"] = results["data"]["dataset"]  # the file's whole path is written down
    again["settings"]["dataset"] = results["settings"]["dataset"]
    for name in ("splits", "baselines", "model", "data", "label_names", "best", "settings"):
        assert again[name] == results[name], name


@pytest.mark.slow
def test_predictions_are_those_of_training_on_any_number_of_ranks(trained):
    folder, _ = trained
    copied = folder / "elsewhere" / "copied"
    shutil.copytree(folder / "run", copied)
    for nproc in (1, 2):
        out = ["--out", f"out_{nproc}.jsonl", "--all-probabilities", "--batch", 16]
        words = run_command(folder, "predict", copied, "reviews.csv", "--nproc", nproc, *out)
    assert (folder / "out_1.jsonl").read_bytes() == (folder / "out_2.jsonl").read_bytes()
    rows = [json.loads(line) for line in (folder / "out_1.jsonl").read_text().splitlines()]
    assert list(rows[0]) == ["text", "label", "probability", "probability_bad", "probability_good"]
    assert len(rows) == 160 and all(row["probability"] == row[f"probability_{row['label']}"] for row in rows)
    assert (
        "rows with labels: 160; accuracy" in words
        and "confusion matrix" in words
        and "predictions written to out_2.jsonl: 160" in words
    )

    page = (copied / "report.html").read_text().replace("&#39;", "'").replace("&#34;", '"')
    snippet = re.search(r'<pre id="snippet">(.*?)</pre>', page, re.S)[1]
    script = f"{snippet}\nimport json, sys\ntexts = [json.loads(line)['text'] for line in open(sys.argv[1])]\n"
    script += "print(json.dumps(predict(texts, batch_size=16)))"
    finished = run([sys.executable, "-c", script, folder / "out_1.jsonl"], cwd=copied)
    assert finished.returncode == 0, finished.stderr
    *_, own, asked = finished.stdout.splitlines()
    assert "'label'" in own and "'probability'" in own
    for found, row in zip(json.loads(asked), rows):
        assert found["label"] == row["label"] and found["probability"] == pytest.approx(row["probability"], abs=1e-5)


@pytest.mark.slow
def test_numbers_from_data_to_predictions(tmp_path):
    write(tmp_path / "rated.csv", list(rated(300)))
    options = ["--dataset", "rated.csv", "--model", "small-bert", "--epochs", 12, "--max-length", 32]
    options += ["--output-dir", "out"]
    words = run_command(tmp_path, "recipe", "regression", "--nproc", 2, *options)
    assert "to beat on dev: R²" in words and "by mean of train" in words and "by TF-IDF + ridge regression" in words
    results = json.loads((tmp_path / "out" / "metrics.json").read_text())
    scores = results["splits"]["dev"]
    assert scores["r2"] > 0.3 and results["best"]["by"] == "r2" and scores["rows"] == len(scores["points"]) == 30
    page = (tmp_path / "out" / "report.html").read_text()
    assert (
        page.count("<svg") == 2 + 1
        and page.count('<table class="bars">') == 3
        and "RMSE" in page
        and "TF-IDF + ridge regression" in page
    )
    for nproc in (1, 2):
        out = ["--out", f"out_{nproc}.jsonl", "--nproc", nproc]
        words = run_command(tmp_path, "predict", "out", "rated.csv", *out)
    assert "rows with labels: 300; R²" in words and "the worst mistakes:" in words
    assert (tmp_path / "out_1.jsonl").read_bytes() == (tmp_path / "out_2.jsonl").read_bytes()
    first = json.loads((tmp_path / "out_1.jsonl").read_text().splitlines()[0])
    assert list(first) == ["text", "label"] and 0 < first["label"] < 10


@pytest.mark.slow
def test_several_labels_from_data_to_predictions(tmp_path):
    write(tmp_path / "articles.jsonl", list(articles(240)))
    options = ["--dataset", "articles.jsonl", "--model", "small-bert", "--epochs", 12, "--max-length", 32]
    options += ["--threshold", 0.4, "--output-dir", "out"]
    words = run_command(tmp_path, "recipe", "multi-label", "--nproc", 2, *options)
    assert "to beat on dev: micro F1" in words and "by TF-IDF + one logistic regression for each class" in words
    results = json.loads((tmp_path / "out" / "metrics.json").read_text())
    scores = results["splits"]["dev"]
    assert scores["micro_f1"] > 0.6 and results["best"]["by"] == "micro_f1" and results["threshold"] == 0.4
    for nproc, kind in ((1, "csv"), (2, "csv"), (2, "jsonl")):
        out = ["--out", f"out_{nproc}.{kind}", "--nproc", nproc, "--all-probabilities"]
        words = run_command(tmp_path, "predict", "out", "articles.jsonl", *out)
    assert "rows with labels: 240; micro F1" in words
    assert (tmp_path / "out_1.csv").read_bytes() == (tmp_path / "out_2.csv").read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "out_2.jsonl").read_text().splitlines()]
    with (tmp_path / "out_2.csv").open() as file:
        cells = [row["labels"] for row in csv.DictReader(file)]
    assert cells == [";".join(row["labels"]) for row in rows] and max(map(len, cells)) > 10
    assert all(len(row["labels"]) == sum(row[f"probability_{name}"] >= 0.4 for name in NAMES) for row in rows)


@pytest.mark.slow
def test_tagged_words_from_data_to_predictions(tmp_path):
    write(tmp_path / "sentences.jsonl", list(sentences(300)))
    options = ["--dataset", "sentences.jsonl", "--model", "small-bert", "--epochs", 8, "--max-length", 32]
    words = run_command(tmp_path, "recipe", "token-classification", "--nproc", 2, *options, "--output-dir", "out")
    assert "to beat on dev: F1 0." in words and "by the most frequent tag of each word" in words
    results = json.loads((tmp_path / "out" / "metrics.json").read_text())
    scores, baseline = results["splits"]["dev"], results["baselines"]["frequent_tag"]
    assert scores["f1"] > baseline["f1"] + 0.1 and results["best"]["by"] == "f1" and scores["accuracy"] > 0.8
    assert [each["label"] for each in scores["per_class"]] == ["LOC", "PER"]
    assert sum(each["rows"] for each in scores["per_class"]) == 60
    for nproc, kind in ((1, "conll"), (2, "conll"), (2, "jsonl")):
        out = ["--out", f"out_{nproc}.{kind}", "--nproc", nproc]
        words = run_command(tmp_path, "predict", "out", "sentences.jsonl", *out)
    assert "rows with labels: 300; F1" in words and "the worst mistakes:" in words
    assert (tmp_path / "out_1.conll").read_bytes() == (tmp_path / "out_2.conll").read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "out_2.jsonl").read_text().splitlines()]
    assert list(rows[0]) == ["tokens", "tags", "probabilities", "entities"]
    assert rows[0]["tokens"] == next(sentences(1))["tokens"] and len(rows[0]["tags"]) == len(rows[0]["tokens"])
    lines = (tmp_path / "out_2.conll").read_text().split("\n")
    assert lines[: len(rows[0]["tokens"])] == ["\t".join(pair) for pair in zip(rows[0]["tokens"], rows[0]["tags"])]
    words = run_command(tmp_path, "predict", "out", "on day 3 Alan went to Paris .")
    assert re.search(r"PER Alan; (PER|LOC) Paris  on day 3 Alan went to Paris \.", words)


@pytest.mark.slow
def test_conversations_from_data_to_answers(tmp_path):
    write(tmp_path / "chats.jsonl", list(chats(400)))
    options = ["--dataset", "chats.jsonl", "--epochs", 10, "--max-length", 64, "--output-dir", "out"]
    words = run_command(tmp_path, "recipe", "causal-lm", "--nproc", 2, *options)
    assert "model: small-gpt2, trained from nothing" in words and "by counted pairs of tokens" in words
    assert re.search(
        r"to beat on dev: perplexity \d{3,}\.\d+, token accuracy 0.0\d+ by the model before training", words
    )
    results = json.loads((tmp_path / "out" / "metrics.json").read_text())
    scores = results["splits"]["dev"]
    perplexities = [entry["eval_perplexity"] for entry in results["history"] if "eval_perplexity" in entry]
    assert scores["perplexity"] == pytest.approx(min(perplexities)) == results["best"]["value"] < 3
    assert list(results["baselines"]) == ["before_training", "bigrams"]
    write(tmp_path / "asked.jsonl", list(chats(4, seed=1)))
    for nproc in (1, 2):
        out = ["--out", f"out_{nproc}.jsonl", "--nproc", nproc, "--max-new-tokens", 12]
        run_command(tmp_path, "predict", "out", "asked.jsonl", *out)
    assert (tmp_path / "out_1.jsonl").read_bytes() == (tmp_path / "out_2.jsonl").read_bytes()
    rows = [json.loads(line) for line in (tmp_path / "out_2.jsonl").read_text().splitlines()]
    assert all(list(row) == ["messages", "answer"] and row["messages"][-1]["role"] == "user" for row in rows)
    assert any("costs" in row["answer"] for row in rows)


@pytest.mark.slow
def test_packed_conversations_are_learnt_on_ranks_and_gone_on_with(tmp_path):
    write(tmp_path / "chats.jsonl", list(chats(400)))
    options = ["--dataset", "chats.jsonl", "--max-length", 128, "--packing", "--batch-size", 6, "--output-dir", "out"]
    run_command(tmp_path, "recipe", "causal-lm", "--nproc", 2, *options, "--epochs", 12)
    results = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert results["splits"]["dev"]["perplexity"] < 3 and results["settings"]["packing"]
    assert 6 < results["history"][-1]["step"] < 12 * 360 / 12 / 1.5, "rows hold more than one and a half conversations"
    losses = [entry["loss"] for entry in results["history"] if "loss" in entry]
    before = math.log(results["baselines"]["before_training"]["perplexity"])
    assert losses[0] == pytest.approx(before, rel=0.02), "packed or not, the unit is the mean row: it begins alike"
    words = run_command(tmp_path, "predict", "out", "guest 3 asks what the lamp costs", "--max-new-tokens", 12)
    assert "costs" in words


@pytest.mark.slow
def test_lora_on_a_qwen2_and_answers_of_the_merged_model(tmp_path):
    rows = list(chats(200))
    write(tmp_path / "chats.jsonl", rows)
    SAVERS["small-qwen2"](tmp_path / "qwen2", [each["content"] for row in rows for each in row["messages"]], None, 64)
    options = ["--dataset", "chats.jsonl", "--model", "qwen2", "--lora", "--epochs", 2, "--max-length", 64]
    options += ["--learning-rate", 1e-2, "--output-dir", "out"]
    words = run_command(tmp_path, "recipe", "causal-lm", "--nproc", 2, *options)
    results = json.loads((tmp_path / "out" / "metrics.json").read_text())
    scores, before = results["splits"]["dev"], results["baselines"]["before_training"]
    assert scores["perplexity"] < 0.8 * before["perplexity"]
    assert re.search(r"WARNING: perplexity: [\d.]+ above counted pairs of tokens", words), "adapters of random weights"
    config = json.loads((tmp_path / "out" / "model" / "config.json").read_text())
    assert config["model_type"] == "qwen2" and not list((tmp_path / "out" / "model").glob("adapter*"))
    assert "<- hello" in run_command(tmp_path, "predict", "out", "hello", "--max-new-tokens", 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "recipe, rows", [("multi-label", articles), ("token-classification", sentences), ("causal-lm", chats)]
)
def test_two_ranks_learn_what_one_learns(tmp_path, recipe, rows):
    """From rows in the same order, and without dropout, which each rank draws for itself."""
    program = REPOSITORY / "tests" / "programs" / "recipe_in_order.py"
    rows = list(rows(240))
    write(tmp_path / "data.jsonl", rows)
    texts = [json.dumps(row) for row in rows]
    SAVERS["small-gpt2" if recipe == "causal-lm" else "small-bert"](tmp_path / "model", texts, 2, 128)
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config |= {name: 0.0 for name in config if "drop" in name and isinstance(config[name], float)}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    found = []
    for nproc in (1, 2):
        options = RecipeOptions("data.jsonl", model="model", epochs=3.0, learning_rate=1e-3, batch_size=16 // nproc)
        request = replace(options, output_dir=Path(f"out_{nproc}")).to_json()
        run_command(tmp_path, "run", "--nproc", nproc, program, recipe, request)
        found.append(json.loads((tmp_path / f"out_{nproc}" / "metrics.json").read_text())["splits"]["dev"])
    one, two = found
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-4)
    for name in get_task(recipe).shown:
        assert two[name] == pytest.approx(one[name], rel=1e-3), name


@pytest.mark.slow
def test_pairs_in_three_classes_with_lora_resumed_and_asked(tmp_path):
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
    write(tmp_path / "pairs" / "dev.jsonl", rows[144:])
    save_small_bert(tmp_path / "bert", good + bad, num_labels=2)  # its head is for other classes, and begun anew
    recipe = ["recipe", "classification", "--nproc", 2, "--dataset", "pairs", "--model", "bert", "--output-dir", "out"]
    recipe += ["--label-column", "verdict", "--lora", "--lora-r", 4, "--lora-alpha", 8, "--learning-rate", 3e-3]
    words = run_command(tmp_path, *recipe, "--epochs", 1)
    assert "train: 144 rows. Rows of each class: both (48), neither (48), one (48)" in words
    (*first, _) = check_run_folder(tmp_path / "out", ["dev"])["history"]
    run_command(tmp_path, *recipe, "--epochs", 3, "--resume")
    results = check_run_folder(tmp_path / "out", ["dev"])
    history = results["history"]
    assert history[: len(first)] == first, "the first epoch is not trained again"
    assert [entry["epoch"] for entry in history if "eval_accuracy" in entry] == [1, 2, 3]
    assert results["label_names"] == ["both", "neither", "one"] and results["model"]["pretrained"]
    scores = results["splits"]["dev"]
    assert (
        sum(map(sum, scores["confusion_matrix"])) == 36 and [each["rows"] for each in scores["per_class"]] == [12] * 3
    )
    words = run_command(tmp_path, "predict", "out", "pairs/dev.jsonl", "--nproc", 2)
    assert f"accuracy {scores['accuracy']:.4f}, macro F1 {scores['macro_f1']:.4f}" in words


@pytest.mark.slow
def test_folds(tmp_path):
    write_reviews(tmp_path / "reviews.csv", 200)
    options = ["--dataset", "reviews.csv", "--folds", 3, "--epochs", 1, "--model", "small-bert", "--fp16"]
    options += ["--output-dir", "out"]
    words = run_recipe(tmp_path, "classification", *options)
    results = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert "over 3 folds: accuracy" in words and "fold 3 of 3" in words
    assert len(results["folds"]["scores"]["accuracy"]["each"]) == 3
    assert sum(each["rows"] for each in results["splits"]["dev"]["per_class"]) == 200, "each row is scored once"
