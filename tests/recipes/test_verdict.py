"""Praise and blame go by chance, by the level of the score, and by how it was come by."""

import numpy as np
import pytest

from mindnlp_dp_plugin.recipes import report
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.verdict import give_advice, judge, rises_from
from tests.recipes.test_parts import results_of

TASK = get_task("classification")


def judged(mine, theirs, rows, split="test", history=()):
    """The verdict on a macro F1 beside that of a baseline, with as much chance as so many rows have."""
    error = np.sqrt(mine * (1 - mine) / rows)
    results = results_of(["a", "b"], np.eye(2), np.arange(2), history=list(history))
    scores = {"accuracy": mine, "macro_f1": mine, "f1": mine, "rows": rows, "standard_error": error}
    results["splits"] = {split: {**results["splits"]["dev"], **scores}}
    results["baselines"] = {"tfidf": {"accuracy": theirs, "macro_f1": theirs, "split": split}}
    return judge(results, "en"), results


def test_what_is_within_chance_is_neither_praised_nor_blamed(tmp_path):
    (above, _), (below, results) = judged(0.887, 0.880, 1000), judged(0.880, 0.887, 1000)
    assert above.style == below.style == "fair"
    assert below.sentence == "macro F1: 0.7 points below TF-IDF + logistic regression (within chance for 1000 rows)"
    assert "TF-IDF + logistic regression (within chance for 1000 rows). Try" in give_advice(results)[0]
    report.write(RunFolder(tmp_path), results)
    assert 'class="verdict fair"' in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert judged(0.95, 0.90, 1000)[0].style == "good" and judged(0.90, 0.95, 1000)[0].style == "bad"
    assert "chance" not in judged(0.95, 0.90, 1000)[0].sentence


def test_a_low_score_is_not_praised():
    verdict, _ = judged(0.27, 0.15, 1000)
    assert verdict.style == "fair"
    assert verdict.notes == ["But macro F1 is only 27.0%: too little to rely on."]


def test_numbers_that_a_constant_meets_better_are_not_praised():
    results = judged(0.9, 0.8, 1000)[1] | {"task": "regression"}
    results["splits"]["test"]["r2"], results["baselines"] = -5.0, {"mean": {"r2": -90.0, "split": "test"}}
    assert judge(results, "en").style == "fair"
    assert judge(results, "en").notes == ["But R² is only -5.000: too little to rely on."]
    results["splits"]["test"]["r2"] = 0.2
    assert judge(results, "en").style == "good" and judge(results, "en").notes == []


def test_a_single_peak_on_dev_is_named():
    history = [{"epoch": n, "eval_macro_f1": value} for n, value in enumerate((0.81, 0.95, 0.80), 1)]
    verdict, _ = judged(0.95, 0.85, 1000, split="dev", history=history)
    assert any("dev chose the epoch and is scored" in note for note in verdict.notes)
    assert any("Best of 3 epochs" in note and "at 80.0%" in note for note in verdict.notes)
    history[-1]["eval_macro_f1"] = 0.94
    assert not any("Best of" in note for note in judged(0.95, 0.85, 1000, "dev", history)[0].notes)
    assert judged(0.95, 0.85, 1000, history=history)[0].notes == []


def test_overfitting_is_advised_against():
    rising = [{"epoch": n, "eval_loss": loss} for n, loss in enumerate((0.30, 0.28, 0.4, 0.5), 1)]
    assert rises_from(rising) == 2
    assert rises_from(rising[:2]) is None and rises_from(rising[::-1]) is None
    _, results = judged(0.80, 0.90, 1000, history=rising)
    results |= {"best": {"epoch": 2}, "settings": {**results["settings"], "epochs": 4}}
    (advice,) = give_advice(results)
    assert "--patience 2 (overfitting: dev loss rises from epoch 2 on)" in advice and "--learning-rate" not in advice
    results["best"] = {"epoch": 4}
    (advice,) = give_advice(results)
    assert "--epochs" not in advice and "--learning-rate" in advice, "more and fewer at once help nobody"
    results["history"] = rising[:2]
    assert "more --epochs (the last was the best)" in give_advice(results)[0]


@pytest.mark.parametrize("rows", [400, 6400])
def test_the_standard_error_is_that_of_so_many_rows(rows):
    chance = np.random.default_rng(1)
    labels = np.arange(rows) % 2
    right = chance.random(rows) < 0.8
    logits = np.eye(2)[np.where(right, labels, 1 - labels)]
    expected = np.sqrt(0.8 * 0.2 / rows)
    assert TASK.standard_error(logits, labels, {}) == pytest.approx(expected, rel=0.3)


def test_the_standard_error_of_entities_is_by_sentences():
    task, names = get_task("token-classification"), ["O", "B-PER", "I-PER"]
    labels = [[1, 2, 0, 0]] * 100
    logits = [np.eye(3)[[1, 2, 0, 0] if row % 4 else [0, 0, 0, 0]] for row in range(100)]
    error = task.standard_error(logits, labels, {"label_names": names})
    assert error == pytest.approx(np.sqrt(0.25 * 0.75 / 100) * 2 / 1.75**2 * 1, rel=0.4)
