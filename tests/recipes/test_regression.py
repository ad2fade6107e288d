"""Texts with numbers: read, beaten, trained, reported and predicted."""

import random

import numpy as np
import pytest

from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.scores import decimal
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
    assert [decimal(value) for value in (-0.0004, 0.25, -1.5)] == ["0.000", "0.250", "-1.500"]
    kept, texts = {"mean": 0.0, "std": 1.0}, [("a",), ("b",)]
    worst = TASK.details(np.array([[1.0], [5.0]]), np.array([1.5, 2.0]), texts, kept)["mistakes"]
    assert [each["texts"] for each in worst] == [["b"], ["a"]] and worst[0]["predicted"] == 5
