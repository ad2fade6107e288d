"""Texts with any number of labels: read, beaten, scored, reported and asked for."""

import random
from dataclasses import replace

import datasets
import numpy as np
import pytest
from sklearn.metrics import f1_score

from mindnlp_dp_plugin.recipes import report
from mindnlp_dp_plugin.recipes.options import RecipeOptions as Options
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.small_models import save_small_bert
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.verdict import give_advice
from tests.recipes.test_parts import results_of
from tests.recipes.test_tables import refusal, write
from tests.recipes.trained import asked_of

TASK = get_task("multi-label")
TOPICS = {"team": "sport", "bank": "money", "film": "art", "vote": "politics"}
NAMES = sorted(TOPICS.values())


def articles(num_rows, seed=0):
    """Texts with up to three words that each tell a topic."""
    chance = random.Random(seed)
    for number in range(num_rows):
        words = chance.sample(list(TOPICS), chance.randint(0, 3))
        yield {"text": " and ".join([f"item {number}", *words]), "labels": [TOPICS[word] for word in words]}


def in_cells(rows, separator):
    return [{**row, "labels": separator.join(row["labels"])} for row in rows]


def contents(data):
    """Every row of every split, with the names of its labels."""
    return sorted(
        (row["text"], tuple(name for name, has in zip(data.label_names, row["label"]) if has))
        for split in data.splits.values()
        for row in split
    )


@pytest.mark.parametrize("kind", ["jsonl", "json", "parquet", "csv", "tsv", "separated by bars", "printed lists"])
def test_every_way_to_write_several_labels_gives_the_same_rows(tmp_path, kind):
    rows, options = list(articles(120)), {}
    if kind == "csv":
        path = write(tmp_path / "data.csv", in_cells(rows, ";"))
    elif kind == "tsv":
        path, options = write(tmp_path / "data.tsv", in_cells(rows, ", ")), {"label_separator": ","}
    elif kind == "separated by bars":
        path, options = write(tmp_path / "data.csv", in_cells(rows, " | ")), {"label_separator": "|"}
    elif kind == "printed lists":
        path = write(tmp_path / "data.csv", [{**row, "labels": str(row["labels"])} for row in rows])
    else:
        path = write(tmp_path / f"data.{kind}", rows)
    data = TASK.read(Options(str(path), **options))
    assert contents(data) == sorted((row["text"], tuple(sorted(row["labels"]))) for row in rows)
    assert data.label_names == NAMES and len(data.splits["dev"]) == 12


def test_numbers_of_classes_in_a_hub_data_set_have_names(tmp_path):
    names = ["joy", "anger", "fear"]
    kinds = datasets.Features(
        {"text": datasets.Value("string"), "labels": datasets.Sequence(datasets.ClassLabel(names=names))}
    )
    rows = {"text": [f"text {row}" for row in range(40)], "labels": [[row % 3, (row + 1) % 3] for row in range(40)]}
    datasets.Dataset.from_dict(rows, features=kinds).to_parquet(str(tmp_path / "data.parquet"))
    data = TASK.read(Options(str(tmp_path / "data.parquet")))
    assert data.label_names == sorted(names) and ("text 0", ("anger", "joy")) in contents(data)


def test_rare_classes_stay_in_train_and_splits_without_labels_are_left_out(tmp_path):
    rows = [*articles(100), *({"text": f"odd {n}", "labels": ["art", f"rare {n // 2}"]} for n in range(6))]
    write(tmp_path / "train.jsonl", rows)
    (tmp_path / "test.jsonl").write_text('{"text": "of nothing", "labels": []}\n')
    for seed in range(3):
        data = TASK.read(Options(str(tmp_path), seed=seed))
        assert list(data.splits) == ["train", "dev"]
        assert np.array(data.splits["train"]["label"]).sum(axis=0).min() >= 1
    options = Options(str(tmp_path), folds=4)
    data = TASK.read(options)
    folds = TASK.folds(data, options)
    assert sorted(row for fold in folds for row in fold) == list(range(106))
    assert TASK.baselines(data, options, TASK.facts(data, options))["tfidf_one_vs_rest"]["split"] == "dev"


@pytest.mark.parametrize(
    "labels, options, words",
    [
        (
            ["a", "b"],
            {},
            "holds at most one class in each row (for example 'a'): train them with `mindnlp-dp recipe cl",
        ),
        (["a;b"] * 9 + ["a"], {"label_separator": "|"}, "or name the --label-separator, which is '|'"),
        (["a, b"] * 9 + ["a"], {}, "or name the --label-separator, which is ';'"),
        (["a;a", "a"], {}, "label column 'labels' holds one class only, 'a'"),
        (["[a, b]"], {}, "'data.csv', row 1: the label '[a, b]' is no list; write [\"a\""),
        ([f"x{row};y{row}" for row in range(40)], {}, "holds 80 different values in 40 rows, which are no classes"),
    ],
)
def test_what_is_no_multi_label_data(tmp_path, labels, options, words):
    rows = [{"text": f"row {row}", "labels": labels[row % len(labels)]} for row in range(40)]
    assert words in refusal("multi-label", write(tmp_path / "data.csv", rows), **options)


def test_a_bad_label_is_named_with_its_file_and_line(tmp_path):
    rows = list(articles(40))
    write(tmp_path / "train.jsonl", rows)
    write(tmp_path / "dev.jsonl", [*rows[:4], {"text": "new", "labels": ["art", "music"]}])
    said = refusal("multi-label", tmp_path)
    assert "'dev.jsonl', row 5: label 'music' of the dev split is unseen in training" in said
    write(tmp_path / "dev.jsonl", [*rows[:2], {"text": "new", "labels": [{"name": "art"}]}])
    said = refusal("multi-label", tmp_path)
    assert "'dev.jsonl', row 3: the label [{'name': 'art'}] is neither a text nor a list" in said


def test_scores_are_those_of_sklearn_and_baselines_learn_what_words_tell(tmp_path):
    chance = np.random.default_rng(0)
    labels, chosen = chance.random((2, 50, 4)) > 0.6
    found = TASK.compare(chosen, labels, {})
    assert found["micro_f1"] == pytest.approx(f1_score(labels, chosen, average="micro"))
    assert found["macro_f1"] == pytest.approx(f1_score(labels, chosen, average="macro"))
    assert found["exact_match"] == (labels == chosen).all(axis=1).mean()
    absent = np.zeros((50, 1), bool)
    widened = TASK.compare(np.hstack([chosen, absent]), np.hstack([labels, absent]), {})
    assert widened == found, "a class that neither occurs nor is chosen has no F1"
    assert TASK.compare(absent, absent, {})["micro_f1"] == 0

    options = Options(str(write(tmp_path / "data.jsonl", list(articles(300)))))
    data = TASK.read(options)
    baselines = TASK.baselines(data, options, TASK.facts(data, options))
    assert baselines["tfidf_one_vs_rest"]["micro_f1"] > 0.95 > 0.6 > baselines["majority"]["micro_f1"] > 0.2
    facts = TASK.facts(data, options)
    assert facts["label_separator"] == ";" and facts["threshold"] == 0.5 and list(facts["rows"]["train"]) == NAMES
    rows, classes = TASK.examples([[1], [2]], [[1.0, 0, 1.0, 0], [0, 0, 0, 0]])
    assert rows == [[1], [1], [2]] and classes == [0, 2, 4]


def test_the_loss_is_the_mean_of_binary_cross_entropies():
    from mindnlp_dp_plugin import compat

    compat.bridge()
    import mindspore

    facts = {"label_names": ["a", "b"], "rows": {"train": {"a": 10, "b": 80}}, "num_rows": {"train": 100}}
    logits = np.array([[1.0, -30.0], [0.5, 40.0], [0.0, 0.3]], np.float32)
    labels = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], np.float32)
    positive, negative = labels * np.logaddexp(0, -logits), (1 - labels) * np.logaddexp(0, logits)
    for weights, expected in (
        ("none", (positive + negative).mean()),
        ("balanced", (positive * np.array([9, 0.25]) + negative).mean()),
    ):
        loss = TASK.loss(facts, Options(class_weights=weights))
        found = loss(mindspore.Tensor(logits), mindspore.Tensor(labels)).item()
        assert found == pytest.approx(expected, rel=1e-5)
        gradient = mindspore.grad(lambda values, loss=loss: loss(values, mindspore.Tensor(labels)))(
            mindspore.Tensor(logits)
        ).asnumpy()
        assert np.isfinite(gradient).all() and gradient[0, 0] < 0 < gradient[1, 0]


KEPT = {"label_names": NAMES, "threshold": 0.3, "label_separator": ";"}


def test_a_model_of_several_labels_is_trained_for_one(tmp_path):
    save_small_bert(tmp_path / "model", ["fine food"] * 9, 3)
    several = TASK.load_model(str(tmp_path / "model"), {"label_names": ["a", "b", "c"]})
    assert several.config.problem_type == "multi_label_classification"
    several.save_pretrained(str(tmp_path / "model"))
    for task, kind in (("classification", "single_label_classification"), ("regression", "regression")):
        model = get_task(task).load_model(str(tmp_path / "model"), {"label_names": ["a", "b"]})
        assert model.config.problem_type == kind, "or its own loss would be that of several labels"


def test_the_threshold_decides_what_is_predicted():
    chances = np.array([[0.29, 0.31, 0.9, 0.1], [0.1, 0.1, 0.1, 0.1]])
    logits = np.log(chances / (1 - chances))
    found = TASK.predictions(logits, KEPT, all_probabilities=True)
    assert found["labels"][0] == ["money", "politics"] and found["labels"][1] == []
    assert found["probabilities"][0] == pytest.approx([0.31, 0.9])
    assert found["probability_art"][0] == pytest.approx(0.29)
    assert TASK.in_short({name: values[0] for name, values in found.items()}, KEPT) == "money 0.310, politics 0.900"
    assert TASK.in_short({name: values[1] for name, values in found.items()}, KEPT) == "–"


def results(logits, labels, language="en"):
    texts = [(f"text {row}",) for row in range(len(labels))]
    scores = {**TASK.score(logits, labels, texts, KEPT), "loss": 0.1}
    baseline = {"micro_f1": 0.9, "macro_f1": 0.8, "exact_match": 0.7, "split": "dev"}
    others = {"task": "multi-label", **KEPT, "splits": {"dev": scores}}
    others["baselines"] = {"majority": {**baseline, "micro_f1": 0.2}, "tfidf_one_vs_rest": baseline}
    return {**results_of(NAMES, np.eye(4), np.arange(4), language), **others}


def test_the_report_and_the_advice(tmp_path, monkeypatch):
    labels = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]], np.float32)
    logits = np.array([[9.0, -9, 9, -9], [2.0, 9, -9, -9], [-9, -9, -9, -9]])
    good = results(logits, labels)
    assert good["splits"]["dev"]["micro_f1"] == pytest.approx(6 / 7)
    (mistake,) = good["splits"]["dev"]["mistakes"]
    assert mistake == {"texts": ["text 1"], "label": "money", "predicted": "art, money"}
    assert [each["predicted"] for each in good["splits"]["dev"]["per_class"]] == [2, 1, 1, 0]
    (below,) = give_advice(good)
    assert below.startswith("micro F1: 4.3 points below TF-IDF + one logistic regression for each class. Try")
    assert give_advice(results(-9 * np.ones((3, 4)), labels))[0] == "The model predicts no class for every row of dev."
    same = np.tile([9.0, 9, -9, -9], (3, 1))
    assert give_advice(results(same, labels))[0] == "The model predicts art, money for every row of dev."
    folder = RunFolder(tmp_path)
    good["data"] |= {"rows": {"train": dict(zip(NAMES, (3, 2, 1, 0)))}, "num_rows": {"train": 4}}
    report.write(folder, good)
    page = folder.report.read_text(encoding="utf-8")
    assert "micro F1: 4.3 points below TF-IDF" in page and "A class is chosen from a probability of 0.3 on" in page
    assert "mindnlp-dp recipe multi-label --config run.yaml --output-dir again" in page
    assert "3 (75%)" in page, "of the rows; shares of all classes make more than 100%"
    monkeypatch.setenv("MINDNLP_DP_LANG", "")  # then texts in Chinese count
    report.write(folder, results(logits, labels, "zh"))
    assert "概率不低于 0.3" in folder.report.read_text(encoding="utf-8")


def test_files_to_predict_keep_their_labels(tmp_path):
    ask = asked_of(tmp_path / "run", "multi-label", ["text"], "labels", **KEPT)
    rows = [{"text": "a", "labels": "art; money"}, {"text": "b", "labels": ""}, {"text": "c", "labels": "art;music"}]
    write(tmp_path / "asked.csv", rows)
    assert ask(tmp_path / "asked.csv")["labels"] == [[1, 1, 0, 0], [0, 0, 0, 0], None]
    write(tmp_path / "asked.csv", [{**row, "labels": ""} for row in rows])
    request = ask(tmp_path / "asked.csv")
    assert request["labels"] is None and request["texts"] == [["a"], ["b"], ["c"]]


def test_settings_of_this_task_are_written_down_and_those_of_others_are_not():
    options = Options("data.csv", threshold=0.3, label_separator="/")
    written = options.to_yaml(TASK.name)
    assert "threshold: 0.3" in written and "label_separator: /" in written and "packing" not in written
    assert "threshold" not in replace(options, threshold=None).to_yaml(TASK.name)
