"""Texts with numbers: read, beaten, trained, reported and predicted."""

import random

import datasets
import numpy as np
import pytest

from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.prepared import prepare
from mindnlp_dp_plugin.recipes.scores import decimal, shown_label
from mindnlp_dp_plugin.recipes.tasks import get_task
from tests.recipes.test_tables import refusal, write

TASK = get_task("regression")
WORTH = {"superb": 2.0, "fine": 1.0, "plain": 0.0, "dull": -1.0, "awful": -2.0}


def rated(num_rows, seed=0):
    """Texts of four words that each add to the rating, and some that say nothing."""
    chance = random.Random(seed)
    for number in range(num_rows):
        words = chance.choices(list(WORTH), k=4)
        text = " and ".join(words) + f" said guest {number % 37}"
        yield {"text": text, "rating": 5 + sum(WORTH[word] for word in words) / 2}


def test_numbers_are_read_counted_and_split(tmp_path):
    options = RecipeOptions(str(write(tmp_path / "rated.csv", list(rated(200)))), seed=3)
    data = TASK.read(options)
    assert {split: len(rows) for split, rows in data.splits.items()} == {"train": 180, "dev": 20}
    facts = TASK.facts(data, options)
    assert facts["mean"] == pytest.approx(np.mean(data.splits["train"]["label"]))
    assert sum(facts["rows"]["train"].values()) == 180 and sum(facts["rows"]["dev"].values()) == 20
    baselines = TASK.baselines(data, options, facts)
    assert baselines["mean"]["r2"] < 0.05 < 0.7 < baselines["tfidf_ridge"]["r2"]
    assert baselines["mean"]["spearman"] == 0 and baselines["mean"]["split"] == "dev"
    folded = RecipeOptions(options.dataset, folds=4)
    data = TASK.read(folded)
    assert sorted(row for fold in TASK.folds(data, folded) for row in fold) == list(range(200))
    assert set(TASK.examples([[1]] * 200, data.splits["train"]["label"])[1]) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "values, words",
    [
        ([1.5, "many"], "'data.csv', row 2: the label 'many' is no number: correct it, or"),
        ([1.5, "nan"], "the label 'nan' is no number"),
        ([2.0], "holds one number only: there is nothing to learn"),
    ],
)
def test_what_is_no_regression(tmp_path, values, words):
    rows = [{"text": f"row {row}", "rating": values[row % len(values)]} for row in range(40)]
    assert words in refusal("regression", write(tmp_path / "data.csv", rows))


@pytest.mark.parametrize("column", ["score", "rating"])
def test_the_column_of_numbers_is_found_by_name_or_is_named(tmp_path, column):
    rows = [{"id": f"g{row}", "text": each["text"], column: each["rating"]} for row, each in enumerate(rated(40))]
    data = TASK.read(RecipeOptions(str(write(tmp_path / "rated.csv", rows))))
    assert data.columns == (("text",), column)
    path = str(write(tmp_path / "rated.csv", [{**row, "worth": row[column], column: "x"} for row in rows]))
    assert TASK.read(RecipeOptions(path, label_column="worth")).columns == (("text",), "worth")


def test_scores_of_numbers():
    numbers = np.array([1.0, 2.0, 3.0, 6.0])
    found = TASK.compare(np.array([1.0, 2.0, 3.0, 4.0]), numbers, {})
    assert found["rmse"] == 1 and found["mae"] == 0.5 and found["spearman"] == pytest.approx(1)
    assert found["r2"] == pytest.approx(1 - 4 / 14) and 0.9 < found["pearson"] < 1
    constant = TASK.compare(np.full(4, 3.0), numbers, {})
    assert constant["r2"] == 0 and constant["pearson"] == constant["spearman"] == 0
    assert TASK.compare(np.array([2.0]), np.array([1.0]), {}) == {
        "r2": 0,
        "rmse": 1,
        "mae": 1,
        "pearson": 0,
        "spearman": 0,
    }
    assert [decimal(value) for value in (-9e-5, 0.25, -1.5)] == ["0.000", "0.250", "-1.500"]
    assert [decimal(value) for value in (1.234e-6, 28487.2, -6e8)] == ["1.23e-06", "28487", "-6e+08"], "no 0.000"
    kept, texts = {"mean": 0.0, "std": 1.0}, [("a",), ("b",)]
    worst = TASK.details(np.array([[1.0], [5.0]]), np.array([1.5, 2.0]), texts, kept)["mistakes"]
    assert [each["texts"] for each in worst] == [["b"], ["a"]] and worst[0]["predicted"] == 5
    tiny = TASK.details(np.array([[1.0], [2.0]]), np.array([1.0, 2.0]), texts, {"mean": 0.0, "std": 1e-8})
    assert tiny["points"] == [[1e-8, 1e-8], [2e-8, 2e-8]]


def test_numbers_that_float32_cannot_tell_apart_are_learnt_and_shown(tmp_path):
    numbers = [1_700_000_000 + row % 40 for row in range(80)]
    write(tmp_path / "times.csv", [{"text": f"guest {row}", "score": number} for row, number in enumerate(numbers)])
    options = RecipeOptions(str(tmp_path / "times.csv"), model="small-bert")
    read = TASK.read(options)
    data = prepare(options, tmp_path / "out", "regression")
    (batch,) = data.pipeline("train", 80).create_dict_iterator(num_epochs=1)
    labels = batch["labels"]
    assert TASK.loss(data.facts, None)(labels, labels) == 0
    true = TASK.choose(labels.asnumpy(), labels.asnumpy(), data.facts)
    assert true[1] == pytest.approx(read.splits["train"]["label"], abs=1e-4, rel=0)
    assert (true[0] == true[1]).all(), "predicted as told"
    assert TASK.choose([], [TASK.read_label("1700000007", data.facts)], data.facts)[1] == pytest.approx(1_700_000_007)
    assert sum(data.facts["rows"]["train"].values()) == len(labels), "ranges have different names"
    assert data.facts["baselines"]["tfidf_ridge"]["rmse"] < 40, "the baseline tells them apart, too"
    close = read._replace(splits={"train": datasets.Dataset.from_dict({"label": [1e16, 1e16 + 2]})})
    assert sum(TASK.facts(close, None)["rows"]["train"].values()) > 0, "even where there is no number between them"
    assert shown_label(1_700_000_007.2) == "1700000007" and shown_label(3.14159) == "3.142"
