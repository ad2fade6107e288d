"""The RoBERTa example, as a student runs it: on its embedded default, and on a model folder and a csv of their own."""

import csv
import re
import sys

from mindnlp_dp_plugin.recipes import generate_reviews, save_small_roberta
from tests.harness import REPOSITORY, run

EXAMPLE = REPOSITORY / "examples" / "roberta_imdb" / "roberta_imdb.py"


def run_example(folder, *arguments, backend="auto"):
    command = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", 2, "--backend", backend]
    finished = run([*command, EXAMPLE, *arguments], cwd=folder)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_embedded_default_learns_and_says_where_things_are(tmp_path):
    words = run_example(tmp_path, "--epochs", 2)
    accuracy = float(re.search(r"accuracy ([\d.]+), F1 ([\d.]+) on the test reviews", words)[1])
    assert accuracy > 0.75, "a coin would get 0.5"
    assert (tmp_path / "roberta_imdb_output" / "model" / "model.safetensors").exists()
    assert "model: roberta_imdb_output/model" in words and words.count("'train_runtime'") == 1
    assert len(list((tmp_path / "mindnlp_dp_logs").glob("*/rank_*.log"))) == 2


def test_a_model_folder_and_a_csv_of_ones_own(tmp_path):
    reviews = generate_reviews(120, seed=5)
    labels = ["good" if label else "bad" for label in reviews["label"]]
    with (tmp_path / "reviews.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *zip(reviews["text"], labels)])
    save_small_roberta(tmp_path / "roberta", reviews["text"], num_labels=2)
    options = ["--model", tmp_path / "roberta", "--dataset", tmp_path / "reviews.csv", "--output-dir", tmp_path / "out"]
    words = run_example(tmp_path, *options, "--epochs", 1, backend="mccl")
    assert "on the test reviews" in words and (tmp_path / "out" / "model" / "config.json").exists()
