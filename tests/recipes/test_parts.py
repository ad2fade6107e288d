"""The parts between a table and a report, in one process."""

import sys
from dataclasses import replace
from pathlib import Path

import datasets
import mindspore
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindnlp_dp_plugin.recipes import generate_reviews, save_small_bert, save_small_roberta
from mindnlp_dp_plugin.recipes.models import add_lora, merge_lora
from mindnlp_dp_plugin.recipes.options import ClassificationOptions, parse, to_arguments
from mindnlp_dp_plugin.recipes.prepared import prepare
from mindnlp_dp_plugin.recipes.report import read_curves, write
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.scores import by_class
from tests.recipes.test_tables import write as write_table

CHINESE = ["房间很大，早餐不错", "距离公路太近，吵"] * 20


@given(
    st.builds(
        ClassificationOptions,
        dataset=st.none() | st.sampled_from(["a b.csv", "imdb"]),
        text_column=st.sampled_from([(), ("x",), ("x", "--y")]),
        learning_rate=st.none() | st.floats(1e-8, 1, exclude_min=True),
        epochs=st.floats(0.1, 9),
        lora=st.booleans(),
        output_dir=st.just(Path("out put")),
    )
)
def test_ranks_read_the_options_that_the_command_line_gave(options):
    words, sys.argv = sys.argv, ["recipe", *to_arguments(options)]
    try:
        assert parse("", ClassificationOptions(small_model="bert", lora=options.lora)) == options
    finally:
        sys.argv = words


def test_help_of_an_example_and_a_wrong_option(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["roberta_imdb.py", "--help"])
    with pytest.raises(SystemExit) as left:
        parse("What it does.", ClassificationOptions())
    assert left.value.code == 0 and "What it does." in (shown := capsys.readouterr().out) and "--batch-size" in shown
    monkeypatch.setattr(sys, "argv", ["roberta_imdb.py", "--epoch", "0"])
    with pytest.raises(SystemExit) as left:
        parse("", ClassificationOptions())
    assert left.value.code == 2 and "--epoch" in capsys.readouterr().err


def test_scores_by_class():
    logits = np.eye(3)[[0, 0, 1, 1, 1, 0]]  # the third class is never predicted
    found = by_class(logits, np.array([0, 0, 0, 1, 2, 2]), ["a", "b", "c"])
    assert found["confusion_matrix"] == [[2, 1, 0], [0, 1, 0], [1, 1, 0]]
    a, b, c = found["per_class"]
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
    assert len(tokens) >= len(CHINESE[0]), "characters stand alone"
    model = AutoModelForSequenceClassification.from_pretrained(str(tmp_path))
    assert model.config.num_labels == 3 and model(mindspore.Tensor([tokens])).logits.shape == (1, 3)


def test_merged_lora_is_a_plain_model_with_the_same_answers(tmp_path):
    from mindnlp.transformers import AutoModelForSequenceClassification

    save_small_roberta(tmp_path, generate_reviews(50)["text"], num_labels=2)
    plain = AutoModelForSequenceClassification.from_pretrained(str(tmp_path))
    names = {name: parameter.shape for name, parameter in plain.named_parameters()}
    adapted = add_lora(plain)
    chance = np.random.default_rng(0)
    trained = [(name, each) for name, each in adapted.named_parameters() if each.requires_grad]
    assert any("lora_B" in name for name, _ in trained) and len(trained) < len(names)
    for _, parameter in trained:
        parameter.assign_value(mindspore.Tensor(chance.normal(0, 0.3, parameter.shape), mindspore.float32))
    rows = mindspore.Tensor(chance.integers(5, 90, (4, 16)), mindspore.int32)
    adapted.set_train(False)
    expected = adapted(rows).logits.asnumpy()
    merged = merge_lora(adapted)
    assert {name: parameter.shape for name, parameter in merged.named_parameters()} == names
    merged.save_pretrained(str(tmp_path / "merged"))
    again = AutoModelForSequenceClassification.from_pretrained(str(tmp_path / "merged"))
    again.set_train(False)
    np.testing.assert_allclose(again(rows).logits.asnumpy(), expected, atol=1e-5)
    assert np.ptp(expected, axis=0).max() > 1e-3, "the rows must be told apart for this to mean anything"


def test_prepared_pairs(tmp_path, capsys):
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
    options = ClassificationOptions(str(tmp_path), small_model="bert", max_length=40)
    prepared = prepare(options, tmp_path / "prepared")
    assert prepared.splits == ["train", "dev"] and prepared.label_names == ["a", "b"] and data.exists()
    assert "text: sentence1, sentence2; label: label" in capsys.readouterr().out
    seen = [batch for batch in prepared.pipeline("dev", 1).create_dict_iterator(num_epochs=1, output_numpy=True)]
    assert [batch["input_ids"].shape[1] for batch in seen] == [16, 32, 32, 40, 40, 40]
    for batch, length in zip(seen, lengths):
        num_tokens = min(length + 4, 40)
        assert batch["attention_mask"].sum() == num_tokens and batch["token_type_ids"].sum() == 2
        assert set(batch["input_ids"][0, num_tokens:]) <= {prepared.tokenizer.pad_token_id}
    (mixed, _) = prepared.pipeline("dev", 3).create_dict_iterator(num_epochs=1, output_numpy=True)
    assert mixed["input_ids"].shape == (3, 32) and mixed["labels"].tolist() == [0, 1, 0]
    assert mixed["attention_mask"].sum(axis=1).tolist() == [5, 17, 18]


def test_generated_reviews_when_no_data_set_is_named(tmp_path, capsys):
    prepared = prepare(ClassificationOptions(), tmp_path)
    rows = datasets.load_from_disk(str(tmp_path / "train"))
    assert len(rows) == 4000 and sum(rows["labels"]) == 2000 and prepared.label_names == ["bad", "good"]


def test_the_report_of_many_classes_and_odd_names(tmp_path):
    from tensorboardX import SummaryWriter

    folder = RunFolder(tmp_path / "<run>")
    with SummaryWriter(str(folder.tensorboard)) as events:
        for step in range(5):
            events.add_scalar("train/loss", 1 / (step + 1), step)
    assert read_curves(folder.tensorboard)["train/loss"][1] == (1, 0.5)
    names = [f"<b>类{number}</b>" for number in range(40)]
    scores = by_class(np.eye(40), np.arange(40), names)
    splits = {"dev": {"accuracy": 1.0, "f1": 1.0, **scores}}
    results = {"splits": splits, "label_names": names, "command": "a < b", "ranks": 2, "machine": "m", "versions": {}}
    write(folder, results)
    page = folder.report.read_text(encoding="utf-8")
    assert "&lt;b&gt;类39" in page and "a &lt; b" in page and "<b>" not in page
    assert "http" not in page.replace("http://www.w3.org", ""), "the page needs nothing from elsewhere"
    assert page.count("<svg") == 1 and "Too many classes to draw (40)" in page
    few = by_class(np.eye(3), np.arange(3), names[:3])
    write(folder, {**results, "splits": {"dev": {**splits["dev"], **few}}, "label_names": names[:3]})
    assert folder.report.read_text(encoding="utf-8").count("<svg") == 2
    assert not list(folder.home.glob("incomplete*"))


def test_the_learning_rate_fits_what_is_trained():
    options = ClassificationOptions()
    assert options.chosen_learning_rate == 1e-3
    assert replace(options, model="roberta-base").chosen_learning_rate == 2e-5
    assert replace(options, model="roberta-base", lora=True).chosen_learning_rate == 5e-4
    assert replace(options, learning_rate=0.1).chosen_learning_rate == 0.1
