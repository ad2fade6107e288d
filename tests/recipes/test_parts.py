"""The parts between a table and a report, in one process."""

import os
import re
from dataclasses import replace
from pathlib import Path

import click
import mindspore
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindnlp_dp_plugin.cli.recipe import recipe
from mindnlp_dp_plugin.recipes import (
    generate_reviews,
    report,
    save_offline_inputs,
    save_small_bert,
    save_small_roberta,
)
from mindnlp_dp_plugin.recipes.columns import Columns
from mindnlp_dp_plugin.recipes.files import as_text
from mindnlp_dp_plugin.recipes.models import add_lora, merge_lora
from mindnlp_dp_plugin.recipes.options import RecipeOptions, parameters
from mindnlp_dp_plugin.recipes.prepared import prepare
from mindnlp_dp_plugin.recipes.registry import RECIPES
from mindnlp_dp_plugin.recipes.report.charts import line_chart, scatter_chart
from mindnlp_dp_plugin.recipes.results import summary
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.scores import per_class
from mindnlp_dp_plugin.recipes.small_models import SAVERS, begin_with_counts
from mindnlp_dp_plugin.recipes.tables import columns_found
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.training import training_arguments
from mindnlp_dp_plugin.recipes.verdict import give_advice
from mindnlp_dp_plugin.recipes.words import say
from tests.programs.tiny import seed_everything
from tests.recipes.test_tables import write as write_table

CHINESE = ["房间很大，早餐不错", "距离公路太近，吵"] * 20


@given(
    st.builds(
        RecipeOptions,
        dataset=st.none() | st.sampled_from(["a b.csv", "imdb"]),
        text_column=st.sampled_from([(), ("x",), ("x", "--y")]),
        learning_rate=st.none() | st.floats(1e-8, 1, exclude_min=True),
        epochs=st.none() | st.floats(0.1, 9),
        fp16=st.booleans(),
        lora=st.booleans(),
        output_dir=st.just(Path("out put")),
    )
)
def test_ranks_read_the_options_that_the_command_line_gave(options):
    assert RecipeOptions.from_json(options.to_json()) == options


def test_a_task_has_its_own_options_and_no_others():
    own = {task: {each.name for each in parameters(RecipeOptions(), task)} for task in ("regression", "causal-lm")}
    assert "packing" in own["causal-lm"] and not {"folds", "label_column", "threshold"} & own["causal-lm"]
    assert "folds" in own["regression"] and not {"positive_label", "class_weights", "packing"} & own["regression"]


def test_help_is_two_screens(monkeypatch, capsys):
    monkeypatch.setenv("MINDNLP_DP_LANG", "en")
    for name in RECIPES:
        shown = click.Context(recipe.commands[name], info_name=name, max_content_width=80, terminal_width=80).get_help()
        assert len(shown.splitlines()) <= 2 * 36, name


def test_scores_by_class():
    logits = np.eye(3)[[0, 0, 1, 1, 1, 0]]  # the third class is never predicted
    predicted, labels = logits.argmax(axis=-1), np.array([0, 0, 0, 1, 2, 2])
    texts, kept = [(str(row),) for row in range(6)], {"label_names": ["a", "b", "c"]}
    details = get_task("classification").details(logits, labels, texts, kept)
    assert details["confusion_matrix"] == [[2, 1, 0], [0, 1, 0], [1, 1, 0]]
    a, b, c = per_class(predicted, labels, ["a", "b", "c"])
    assert (a["label"], a["precision"], a["recall"], a["rows"]) == ("a", 2 / 3, 2 / 3, 3)
    assert (b["precision"], b["recall"], b["f1"]) == (1 / 3, 1.0, 0.5)
    assert (c["precision"], c["recall"], c["f1"], c["rows"]) == (0, 0, 0, 2)


@pytest.mark.parametrize("save", [save_small_roberta, save_small_bert])
def test_small_models_read_english_and_chinese(tmp_path, save):
    from mindnlp.transformers import AutoModelForSequenceClassification, AutoTokenizer

    texts = generate_reviews(200)["text"] + CHINESE
    save(tmp_path, texts, num_labels=3)
    save(tmp_path / "again", texts, num_labels=3)
    vocabularies = [(folder / "tokenizer.json").read_text() for folder in (tmp_path, tmp_path / "again")]
    assert vocabularies[0] == vocabularies[1], "a resumed run makes it once more"
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path))
    for text in (texts[0], CHINESE[0]):
        tokens = tokenizer(text)["input_ids"]
        assert len(tokens) <= len(text.split()) * 2 + len(CHINESE[0]) and tokenizer.unk_token_id not in tokens
        words = tokenizer.decode(tokens, skip_special_tokens=True)
        assert words.replace(" ", "").lower() == text.replace(" ", "").lower()
    model = AutoModelForSequenceClassification.from_pretrained(str(tmp_path))
    assert model.config.num_labels == 3 and model(mindspore.Tensor([tokens])).logits.shape == (1, 3)


def test_small_models_begin_with_counts_and_attend_unevenly(tmp_path):
    """With weights of 0.02, as large models begin, each token attends to all others alike, and stays there for long."""
    from mindnlp.transformers import AutoModelForSequenceClassification

    texts, labels = [f"{word} and {n % 7}" for n in range(40) for word in ("fine", "dull")], [0, 1] * 40
    save_small_bert(tmp_path, texts, num_labels=2)
    vocabulary = (tmp_path / "vocab.txt").read_text().split()
    rows = [[2, *map(vocabulary.index, text.split()), 3] for text in texts]
    model = AutoModelForSequenceClassification.from_pretrained(str(tmp_path), attn_implementation="eager")
    begin_with_counts(model, rows, labels)
    model.set_train(False)
    answer = model(mindspore.Tensor(rows), output_attentions=True)
    attention = answer.attentions[0].asnumpy() * len(rows[0])  # 1 on average
    assert attention.std() > 0.2
    words = model.bert.embeddings.word_embeddings.weight.asnumpy()
    fine, dull, neither = (words[vocabulary.index(word)] for word in ("fine", "dull", "and"))
    assert np.dot(fine, dull) < 0 < np.linalg.norm(neither) < 0.5 * np.linalg.norm(fine - dull)


def test_the_labels_of_rows_held_out_are_not_in_the_model_that_a_fold_begins_with(tmp_path):
    write_table(tmp_path / "data.csv", [{"text": f"only{row} " * 3, "label": row % 2} for row in range(40)])
    data = prepare(RecipeOptions(str(tmp_path / "data.csv"), model="small-bert", folds=4), tmp_path / "out")
    held = data.facts["folds"][0]
    rest = sorted(set(range(40)) - set(held))
    before, begun = (
        model.bert.embeddings.word_embeddings.weight.asnumpy()
        for model in (data.task.load_model(data.model.path, data.facts), data.begun_model(1, rest))
    )
    said = [(begun - before)[data.tokenizer.convert_tokens_to_ids(text.split()[0])] for (text,) in data.texts("train")]
    unknown, known = (np.ptp([said[row] for row in rows], axis=0).max() for rows in (held, rest))
    assert unknown < 1e-6 < 1e-3 < known, "or a fold is scored on labels that it knows"


def test_learning_a_tokenizer_leaves_its_library_as_it_was_set(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    save_small_roberta(tmp_path / "set", generate_reviews(50)["text"], num_labels=2)
    assert os.environ["TOKENIZERS_PARALLELISM"] == "false"
    monkeypatch.delenv("TOKENIZERS_PARALLELISM")
    save_small_roberta(tmp_path / "unset", generate_reviews(50)["text"], num_labels=2)
    assert "TOKENIZERS_PARALLELISM" not in os.environ
    for name in ("vocab.json", "merges.txt"):
        assert (tmp_path / "set" / name).read_bytes() == (tmp_path / "unset" / name).read_bytes()


ADAPTED = {
    "small-roberta": "classification",
    "small-bert": "token-classification",
    "small-gpt2": "causal-lm",
    "small-qwen2": "causal-lm",
}


def answers_of(model, rows):
    return model.set_train(False)(input_ids=rows).logits.asnumpy()


@pytest.mark.parametrize("name", ADAPTED)
def test_merged_lora_is_a_plain_model_with_the_same_answers(tmp_path, name):
    task, kept = get_task(ADAPTED[name]), {"label_names": ["O", "B-LOC", "B-PER", "I-LOC", "I-PER"]}
    seed_everything(0)  # rounding is a matter of the weights that are drawn
    SAVERS[name](tmp_path, generate_reviews(50)["text"], 2, 64)  # a head of two is begun anew
    plain, chance = task.load_model(str(tmp_path), kept), np.random.default_rng(0)
    rows = mindspore.Tensor(chance.integers(5, 90, (2, 4)), mindspore.int64)
    names, before = {name: parameter.shape for name, parameter in plain.named_parameters()}, answers_of(plain, rows)
    adapted = add_lora(plain, kind=task.lora_type)
    trained = {name: each for name, each in adapted.named_parameters() if each.requires_grad}
    assert any("lora_B" in name for name in trained) and len(trained) < len(names)
    assert any("classifier" in name for name in trained) == (task.name != "causal-lm"), "a new head is trained, too"
    for parameter in trained.values():
        parameter.assign_value(mindspore.Tensor(chance.normal(0, 0.2, parameter.shape), mindspore.float32))
    expected = answers_of(adapted, rows)
    assert abs(expected - before).max() > 0.01 and np.ptp(expected, axis=0).max() > 1e-3, "else this means nothing"
    merged = merge_lora(adapted)
    assert {name: parameter.shape for name, parameter in merged.named_parameters()} == names
    merged.save_pretrained(str(tmp_path / "merged"))
    np.testing.assert_allclose(answers_of(task.load_model(str(tmp_path / "merged"), kept), rows), expected, atol=1e-5)


def test_prepared_pairs(tmp_path):
    lengths = [
        1,
        13,
        14,
        29,
        30,
        90,
    ]  # words, of one token each; three special ones and one of the second text come on top
    rows = [{"sentence1": "yes " * length, "sentence2": "no", "label": "ab"[n % 2]} for n, length in enumerate(lengths)]
    data = write_table(tmp_path / "train.jsonl", rows * 4)
    write_table(tmp_path / "dev.jsonl", rows)
    options = RecipeOptions(str(tmp_path), model="small-bert", max_length=40)
    prepared = prepare(options, tmp_path / "prepared")
    assert prepared.splits == ["train", "dev"] and prepared.facts["label_names"] == ["a", "b"] and data.exists()
    assert say(prepared.facts["remarks"][0]) == "text: sentence1, sentence2; label: label"
    assert prepared.facts["cut_texts"] == {"train": 4, "dev": 1} and prepared.facts["duplicates"] == {"dev": 6}
    assert prepared.texts("dev")[1] == ("yes " * 12 + "yes", "no")
    seen = [batch for batch in prepared.pipeline("dev", 1).create_dict_iterator(num_epochs=1, output_numpy=True)]
    assert [batch["input_ids"].shape[1] for batch in seen] == [16, 32, 32, 40, 40, 40]
    for batch, length in zip(seen, lengths):
        num_tokens = min(length + 4, 40)
        assert batch["attention_mask"].sum() == num_tokens and batch["token_type_ids"].sum() == 2
        assert set(batch["input_ids"][0, num_tokens:]) <= {prepared.tokenizer.pad_token_id}
    (mixed, _) = prepared.pipeline("dev", 3).create_dict_iterator(num_epochs=1, output_numpy=True)
    assert mixed["input_ids"].shape == (3, 32) and mixed["labels"].tolist() == [0, 1, 0]
    assert mixed["attention_mask"].sum(axis=1).tolist() == [5, 17, 18]


def results_of(label_names, logits, labels, language="en", **others):
    texts = [(f"text <{row}>",) for row in range(len(labels))]
    kept = {"label_names": label_names, "positive_label": None}
    scores = get_task("classification").score(logits, labels, texts, kept)
    counts = {name: int((labels == number).sum()) for number, name in enumerate(label_names)}
    return {
        "task": "classification",
        "splits": {"dev": scores},
        "baselines": {
            "majority": {"accuracy": 0.3, "macro_f1": 0.1, "split": "dev"},
            "tfidf": {"accuracy": 0.9, "macro_f1": 0.8, "split": "dev"},
        },
        "model": {"name": "small-roberta", "parameters": 1234567, "pretrained": False, "origin": None, "why": None},
        "data": {
            "rows": {"train": counts, "dev": counts},
            "num_rows": {"train": len(labels), "dev": len(labels)},
            "cut_texts": {"train": 1, "dev": 0},
            "duplicates": {"dev": 2},
            "text_columns": ["text"],
            "label_column": "label",
            "dataset": "<data>.csv",
            "remarks": [columns_found(Columns(("a < b",), "c"))],
        },
        "label_names": label_names,
        "positive_label": None,
        "best": {"epoch": 2.0, "by": "macro_f1", "value": 0.5},
        "folds": None,
        "language": language,
        "settings": {"epochs": 3.0, "max_length": 128, "model": None},
        "seconds": 75.0,
        "command": "a < b",
        "ranks": 2,
        "machine": "m",
        "versions": {},
        "history": [
            {"epoch": 1, "loss": 0.5},
            {"epoch": 1, "eval_loss": 0.4, "eval_macro_f1": 0.5, "eval_accuracy": 0.6},
        ],
        **others,
    }


ODD_NAMES = [f"<b>类{number}</b>" for number in range(40)]
ODD_NAMES[:5] = ["$x_1$", "\\frac{", "{{ 7 * 7 }}", "a\nb", "half \ud83d"]


def test_the_report_of_many_classes_and_odd_names(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "<run>")
    folder.home.mkdir()
    names = [as_text(name) for name in ODD_NAMES]
    labels = np.arange(40)
    logits = np.eye(40)[np.roll(labels, 1)]
    report.write(folder, results_of(names, logits, labels))
    page = folder.report.read_text(encoding="utf-8")
    assert "&lt;b&gt;类39" in page and "a &lt; b" in page and "<b>类" not in page and "text &lt;3&gt;" in page
    assert "{{ 7 * 7 }}" in page and "$x_1$" in page and "\\frac{" in page
    assert "http" not in page, "the page needs nothing from elsewhere"
    assert page.count("<svg") == 0 and "Most frequent confusions" in page and "1 min 15 s" in page
    assert "macro F1: 80.0 points below TF-IDF + logistic regression" in page
    monkeypatch.setenv("MINDNLP_DP_LANG", "")  # then texts in Chinese count
    report.write(folder, results_of(names[:3], np.eye(3), np.arange(3), "zh"))
    page = folder.report.read_text(encoding="utf-8")
    assert "文本列：a &lt; b" in page
    assert "混淆矩阵" in page and "高 20.0 个百分点" in page and 'lang="zh-CN"' in page
    assert '<td class="right" style="--share:1.000">1</td>' in page and "全部预测正确" in page and "1 分 15 秒" in page
    shown = re.sub(r"(?s)<style.*?</style>|<pre.*?</pre>|<[^>]+>", " ", page)
    assert not re.search(r"(?<!-)\b[a-z]{2,},? [a-z]{2,} [a-z]{2,}", shown), "names may be English, sentences not"
    report.write(folder, results_of(["a", "b", "rare"], np.eye(3)[[0, 1]], np.array([0, 1])))
    assert "<td>–</td>" in folder.report.read_text(encoding="utf-8"), "a class without rows has no scores"
    assert not list(folder.home.glob("incomplete*"))


def test_the_worst_mistakes_name_each_text_once():
    logits = np.array([[0.0, 3.0], [0.0, 1.0], [0.0, 2.0], [5.0, 0.0]])
    texts, kept = [("a",), ("b",), ("a",), ("c",)], {"label_names": ["no", "yes"]}
    found = get_task("classification").details(logits, np.zeros(4, int), texts, kept)["mistakes"]
    assert [each["texts"] for each in found] == [["a"], ["b"]] and found[0]["probability"] > 0.9
    assert [each["is_label_doubtful"] for each in found] == [True, False], "what it is sure of may be mislabelled"


def test_advice():
    names, labels = ["a", "b"], np.array([0] * 9 + [1])
    constant = np.tile([1.0, 0.0], (10, 1))
    (single, below) = give_advice(results_of(names, constant, labels))
    assert single == "The model predicts a for every row of dev."
    assert below.startswith("macro F1: 32.6 points below TF-IDF + logistic regression. Try --class-weights balanced")
    assert "--class-weights balanced, a pretrained model, more rows" in below
    weighed = {"epochs": 3.0, "max_length": 128, "model": None, "class_weights": "balanced"}
    assert "--class-weights" not in give_advice(results_of(names, constant, labels, settings=weighed))[1]
    assert give_advice(results_of(names, np.eye(2)[labels], labels)) == []
    right_but_rare = np.eye(2)[[0] * 5 + [1] * 5]
    (below,) = give_advice(results_of(names, right_but_rare, labels, best={"epoch": 3.0}))
    assert "points below TF-IDF" in below and "more --epochs (the last was the best)" in below
    assert "within chance" not in below, "0.3 is more than two deviations of ten rows"
    assert "总是预测多数类" not in give_advice(results_of(names, constant, labels), "zh")[0]


def test_curves_that_were_not_drawn_are_not_pointed_at(tmp_path):
    results, folder = results_of(["a", "b"], np.eye(2), np.arange(2)), RunFolder(tmp_path)
    assert f"curves: {tmp_path / 'tensorboard'}" in summary(results, folder, ("tensorboard",))
    results["folds"] = {"count": 2, "kept": 1, "scores": {"accuracy": {"mean": 0.5, "std": 0.1}}}
    assert "curves: " not in summary(results, folder, ("tensorboard",)), "folds draw none"


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(allow_nan=True, allow_infinity=True)), max_size=20))
def test_charts_of_any_points(points):
    chart = line_chart({"a": points}, "epoch", False, 1.0, "kept")
    assert "nan" not in chart and "inf" not in chart
    assert bool(chart) == (sum(abs(y) < 1e15 for _, y in points) > 1)


def numbers_of(chart):
    """Those beside the upright axis."""
    return [float(number) for number in re.findall(r"text-anchor: end[^>]*>([\d.]+)%?</text>", chart)]


def test_the_axis_of_a_chart_shows_how_much_a_change_is():
    def drawn(values, **how):
        return line_chart({"a": list(enumerate(values, 1))}, "epoch", **how)

    assert drawn([0.95]) == "", "one evaluation is no curve"
    assert min(numbers_of(drawn([0.95, 0.97], are_shares=True))) == 80
    assert min(numbers_of(drawn([0.55, 0.97], are_shares=True))) == 50
    assert min(numbers_of(drawn([0.2, 0.3], are_shares=True))) == 0
    assert 0 in numbers_of(drawn([0.30, 0.29])), "a loss begins at 0"
    assert "1e8" not in drawn([-2e8, -1e8]) and "1e" not in scatter_chart([(1e-6, 2e-6), (2e-6, 1e-6)], "x", "y")


def test_figures_take_their_colours_from_the_page():
    for chart in (
        line_chart({"$x_1$": [(1, 2), (2, 3)], "b": [(1, 3), (2, 2)]}, "<b>"),
        scatter_chart([(1, 2)], "$x_1$", "<b>"),
    ):
        assert "rgb(var(--accent))" in chart and "var(--soft)" in chart and "#0000a" not in chart
        assert ">$x_1$<" in chart and "&lt;b&gt;" in chart and "http" not in chart and "font-family" not in chart


def test_half_precision_is_for_the_trainer(tmp_path):
    for asked in (True, False):
        options = RecipeOptions(model="small-bert", fp16=asked)
        assert training_arguments(options, RunFolder(tmp_path), 1.0).fp16 is asked


def test_the_learning_rate_and_the_epochs_fit_what_is_trained():
    options = RecipeOptions(model="small-bert")
    assert options.chosen_learning_rate == 1e-3
    assert replace(options, model="minilm").chosen_learning_rate == 5e-5
    assert replace(options, model="roberta-base").chosen_learning_rate == 2e-5
    assert replace(options, model="roberta-base", lora=True).chosen_learning_rate == 5e-4
    assert replace(options, learning_rate=0.1).chosen_learning_rate == 0.1
    assert [options.chosen_epochs(rows, 2) for rows in (40, 3200, 10**6)] == [30, 10, 3]
    pretrained = replace(options, model="roberta-base")
    assert [pretrained.chosen_epochs(rows, 2) for rows in (40, 1600, 10**6)] == [10, 4, 3]
    assert replace(options, epochs=0.5).chosen_epochs(40, 2) == 0.5


def test_offline_inputs_are_what_the_examples_need(tmp_path, capfd):
    names = save_offline_inputs(tmp_path / "offline", num_reviews=40)
    assert set(names) == {"generated", "small-roberta", "small-bert"}
    assert "generative capabilities" not in "".join(capfd.readouterr()), "a language model's warning, not needed here"
