"""Sentences with a tag for each word: read, aligned, scored, beaten, reported and asked for."""

import random
from dataclasses import replace

import datasets
import mindspore
import numpy as np
import pytest
from seqeval.metrics import f1_score

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes import report, save_small_bert, save_small_roberta
from mindnlp_dp_plugin.recipes.conll import read_conll
from mindnlp_dp_plugin.recipes.entities import Compared, entities, in_words
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.prepared import prepare
from mindnlp_dp_plugin.recipes.run_folder import RunFolder
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.tokens import first_tokens, words_to_tokens
from mindnlp_dp_plugin.recipes.verdict import give_advice
from mindnlp_dp_plugin.recipes.words import say
from mindnlp_dp_plugin.recipes.writing import write_predictions
from tests.recipes.test_parts import results_of
from tests.recipes.test_tables import SHARED_DATA, refusal, write
from tests.recipes.trained import asked_of

TASK = get_task("token-classification")
PERSONS, PLACES = ["Ada Lovelace", "Alan", "Grace Brewster Hopper"], ["Paris", "New York"]


def sentences(num_rows, seed=0):
    """Who went where. What follows "to" is a place, also if its name is a person's."""
    chance = random.Random(seed)
    for number in range(num_rows):
        person, place = chance.choice(PERSONS + PLACES).split(), chance.choice(PERSONS + PLACES).split()
        words = ["on", "day", str(number), *person, "went", "to", *place, "."]
        tags = ["O"] * 3 + _tags("PER", person) + ["O", "O"] + _tags("LOC", place) + ["O"]
        yield {"tokens": words, "tags": tags}


def _tags(kind, words):
    return [f"{'I' if place else 'B'}-{kind}" for place, _ in enumerate(words)]


def as_conll(rows, gap=" "):
    return "\n".join("".join(f"{gap.join(pair)}\n" for pair in zip(*row.values())) for row in rows)


def contents(data):
    return sorted(
        (tuple(row["words"]), tuple(data.label_names[tag] for tag in row["label"]))
        for split in data.splits.values()
        for row in split
    )


@pytest.mark.parametrize("kind", ["conll", "four columns", "tabs and Windows", "jsonl", "json", "hub"])
def test_every_way_to_write_tags_gives_the_same_sentences(tmp_path, kind):
    rows = list(sentences(60))
    path = tmp_path / "data.txt"
    if kind == "conll":
        path.write_text("# a corpus\n" + as_conll(rows))
    elif kind == "four columns":
        path = tmp_path / "eng.conll"
        path.write_text("-DOCSTART- -X- -X- O\n\n" + as_conll(rows, " NN B-NP "))
    elif kind == "tabs and Windows":
        path.write_bytes(b"\xef\xbb\xbf" + as_conll(rows, "\t").replace("\n", "\r\n").encode())
    elif kind == "hub":
        names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
        kinds = datasets.Features(
            {
                "tokens": datasets.Sequence(datasets.Value("string")),
                "ner_tags": datasets.Sequence(datasets.ClassLabel(names=names)),
            }
        )
        columns = {"tokens": [row["tokens"] for row in rows], "ner_tags": [row["tags"] for row in rows]}
        path = tmp_path / "data.parquet"
        datasets.Dataset.from_dict(columns, features=kinds).to_parquet(str(path))
    else:
        path = write(tmp_path / f"data.{kind}", rows)
    options = RecipeOptions(str(path))
    data = TASK.read(options)
    assert contents(data) == sorted((tuple(row["tokens"]), tuple(row["tags"])) for row in rows)
    assert data.label_names == ["O", "B-LOC", "B-PER", "I-LOC", "I-PER"]
    assert len(data.splits["dev"]) == 6
    facts = TASK.facts(data, options)
    assert facts["joiner"] == " "
    assert facts["rows"] == {"train": {"LOC": 54, "PER": 54}, "dev": {"LOC": 6, "PER": 6}}


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("a.txt", "EU B-ORG\nrejects\n", "'a.txt', line 2 is 'rejects': give a word and its tag in each line"),
        ("a.txt", "EU B-ORG\n\nrun VERB\n", "'a.txt', line 3 is 'run VERB': give a word and its tag"),
        ("a.txt", "\n\n", "a.txt' has no rows"),
        ("a.txt", "EU O\n" * 20, "holds no tag but O in train"),
        (
            "a.jsonl",
            '{"tokens": ["a", "b"], "tags": ["O"]}\n',
            "'a.jsonl', row 1: 2 words (a, b, ...) and the",
        ),
        ("a.jsonl", '\n{"tokens": ["a"], "tags": ["X"]}\n', "'a.jsonl', row 1: 'X' is no tag: give O, or"),
        ("a.jsonl", '{"tokens": ["a"], "tags": [3]}\n', "'a.jsonl', row 1: 3 is no tag"),
        ("a.jsonl", '{"tokens": "a b", "tags": ["O"]}\n', "'a.jsonl', row 1: 'a b' is no list of words"),
        (
            "a.jsonl",
            '{"sentence": ["a"], "tags": ["O"]}\n',
            "columns sentence, tags is called tokens, or a word",
        ),
        ("a.csv", "text,label\na,b\n", "'a.csv', row 1: 'a' is no list of words"),
        ("tagged", "text,label\na,b\n", "'tagged', line 1 is 'text,label': give"),
    ],
)
def test_what_are_no_tagged_sentences(tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    assert words in refusal("token-classification", tmp_path / name)


def test_types_that_train_lacks_and_options_of_other_tasks_are_refused(tmp_path):
    (tmp_path / "train.txt").write_text(as_conll(sentences(20)))
    (tmp_path / "dev.txt").write_text("EU B-ORG\nrejects O\n")
    said = refusal("token-classification", tmp_path)
    assert "'dev.txt', row 1: label 'B-ORG' of the dev split is unseen in tr" in said
    (tmp_path / "dev.txt").write_text("Ada S-PER\nwent O\n")
    assert "S-PER" in TASK.read(RecipeOptions(str(tmp_path))).label_names, "its type is known"
    assert "train it with `mindnlp-dp recipe token-classification`" in refusal("classification", tmp_path)
    said = refusal("token-classification", tmp_path, text_column=("word",))
    assert "--text-column 'word' is not in 'train.txt': its columns are tok" in said


@pytest.mark.parametrize(
    "tags, expected",
    [
        ("B-PER I-PER O B-LOC", [("PER", 0, 1), ("LOC", 3, 3)]),
        ("I-PER I-PER B-PER I-LOC", [("PER", 0, 1), ("PER", 2, 2), ("LOC", 3, 3)]),  # IOB1, and a type that changes
        ("S-PER B-LOC I-LOC E-LOC", [("PER", 0, 0), ("LOC", 1, 3)]),  # BIOES
        ("U-PER B-LOC I-LOC L-LOC", [("PER", 0, 0), ("LOC", 1, 3)]),  # BILOU
        ("S-PER B-LOC M-LOC E-LOC", [("PER", 0, 0), ("LOC", 1, 3)]),  # BMES
        ("O O", []),
    ],
)
def test_entities_in_every_scheme(tags, expected):
    assert [tuple(each) for each in entities(tags.split())] == expected


def test_scores_are_those_of_seqeval():
    chance = random.Random(0)
    names = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
    true, predicted = ([[chance.choice(names) for _ in range(20)] for _ in range(50)] for _ in range(2))
    found = Compared(predicted, true).scores()
    assert found["f1"] == pytest.approx(f1_score(true, predicted)) and 0 < found["f1"] < 0.5
    assert found["accuracy"] == pytest.approx(0.2, abs=0.05)
    right = Compared(true, true).scores()
    assert right["f1"] == right["precision"] == right["recall"] == right["accuracy"] == 1
    half = Compared([["B-PER", "I-PER", "O"]], [["B-PER", "O", "O"]]).scores()
    assert half["f1"] == 0 and half["accuracy"] == 2 / 3, "an entity with one word too many is wrong"
    loc, org = Compared([["B-LOC", "O"]], [["B-LOC", "B-LOC"]]).types(["O", "B-LOC", "B-ORG"])
    assert (loc["precision"], loc["recall"], loc["rows"], org["rows"]) == (1, 0.5, 2, 0)
    assert in_words(["in", "New", "York"], ["O", "B-LOC", "I-LOC"], " ") == "LOC New York"


@pytest.mark.parametrize("save", [save_small_roberta, save_small_bert])
def test_words_and_tokens_are_aligned(tmp_path, save):
    from mindnlp.transformers import AutoTokenizer

    rows = list(sentences(40))
    save(tmp_path, [" ".join(row["tokens"]) for row in rows] * 3, num_labels=2)
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path))
    words = ["Grace", "Brewsters", "\u200b", "Zyx", "."]
    columns, (places,), num_cut = words_to_tokens(tokenizer, [words], " ", 64)
    (tokens,) = columns["input_ids"]
    assert num_cut == 0 and len(places) == 5 and tokens[0] == tokenizer("")["input_ids"][0]
    ends = [*places[1:], len(tokens) - 1]
    for word, first, end in zip(words, places, ends):
        text = tokenizer.decode(tokens[first:end], skip_special_tokens=True).replace(" ", "")
        assert text.lower() == word.lower() or tokens[first:end] == [tokenizer.unk_token_id]
    sentence = ["Grace", "went", "to", "New", "York", "."]
    whole = tokenizer(" ".join(sentence))["input_ids"]
    columns, _, _ = words_to_tokens(tokenizer, [sentence], " ", 64)
    assert columns["input_ids"] == [whole], "the tokens are those of the text"
    assert set(columns) == set(tokenizer("a"))
    for length in range(4, len(whole) + 1):
        columns, (places,), num_cut = words_to_tokens(
            tokenizer, [["Grace", "went", "to", "New", "York", "."]], " ", length
        )
        assert len(columns["input_ids"][0]) <= length and num_cut == (length < len(whole))
        assert all(place < len(columns["input_ids"][0]) - 1 for place in places)


KEPT = {"label_names": ["O", "B-LOC", "B-PER", "I-LOC", "I-PER"], "joiner": " "}


def test_prepared_sentences_keep_the_tags_of_what_is_cut(tmp_path):
    rows = list(sentences(40))
    long = {"tokens": ["day"] * 60 + ["Paris"], "tags": ["O"] * 60 + ["B-LOC"]}
    write(tmp_path / "train.jsonl", rows)
    write(tmp_path / "dev.jsonl", [*rows[:2], long])
    prepared = prepare(
        RecipeOptions(str(tmp_path), model="small-bert", max_length=32), tmp_path / "out", "token-classification"
    )
    assert prepared.facts["cut_texts"] == {"train": 0, "dev": 1}
    (batch,) = prepared.pipeline("dev", 3).create_dict_iterator(num_epochs=1, output_numpy=True)
    assert batch["input_ids"].shape == (3, 32) and batch["labels"].shape[1] > 32
    assert (batch["labels"] != -100).sum(axis=1).tolist() == [len(row["tokens"]) for row in [*rows[:2], long]]
    # A model that calls every token a place: of the words that were cut it says nothing, which is O.
    logits = np.zeros((3, 32, 5), np.float32)
    logits[:, :, 1] = 1
    scores = TASK.score(logits, batch["labels"], prepared.texts("dev"), prepared.facts)
    (mistake,) = [each for each in scores["mistakes"] if each["label"] == "LOC Paris"]
    assert scores["rows"] == 3 and mistake["predicted"].count("LOC day") == 30
    loss = TASK.loss(prepared.facts, RecipeOptions())
    perfect = np.full((3, 32, 5), -50, np.float32)
    for row, tags in enumerate(batch["labels"][:, :32]):
        perfect[row, range(32), np.maximum(tags, 0)] = 50
    assert loss(mindspore.Tensor(perfect), mindspore.Tensor(batch["labels"])).item() == pytest.approx(0, abs=1e-5)
    even = loss(mindspore.Tensor(logits * 0), mindspore.Tensor(batch["labels"])).item()
    assert even == pytest.approx(np.log(5), rel=1e-5)


def test_baselines_and_what_models_from_nothing_begin_with(tmp_path):
    options = RecipeOptions(str(write(tmp_path / "data.jsonl", list(sentences(200)))))
    data = TASK.read(options)
    (baseline,) = TASK.baselines(data, options, TASK.facts(data, options)).values()
    assert baseline["split"] == "dev" and 0.2 < baseline["f1"] < 0.8, "a name is a person's or a place's"
    folded = replace(options, folds=4)
    data = TASK.read(folded)
    assert TASK.baselines(data, folded, TASK.facts(data, folded))["frequent_tag"]["f1"] > 0.2
    assert TASK.examples([[9, 7, 8]], [[-100, 2, -100]]) == ([[7]], [2])


def test_the_report_and_the_advice(tmp_path):
    rows = list(sentences(4))
    labels = [TASK.read_label(row["tags"], KEPT) for row in rows]
    texts = [(row["tokens"],) for row in rows]
    right = [np.eye(5, dtype=np.float32)[tags] for tags in labels]
    for logits, f1 in ((right, 1.0), ([np.eye(5, dtype=np.float32)[[0] * len(tags)] for tags in labels], 0.0)):
        scores = TASK.score(logits, labels, texts, KEPT)
        assert scores["f1"] == f1 and len(scores["mistakes"]) == (0 if f1 else 4)
        results = results_of(["a", "b"], np.eye(2), np.arange(2)) | {"task": "token-classification", **KEPT}
        results["splits"] = {"dev": {**scores, "loss": 0.1}}
        results["baselines"] = {"frequent_tag": {"f1": 0.5, "precision": 0.5, "recall": 0.5, "split": "dev"}}
        results["best"] = {"epoch": 2.0, "by": "f1", "value": f1}
        report.write(RunFolder(tmp_path), results)
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert "the most frequent tag of each word" in page and '<th scope="row">PER</th>' in page
        advice = give_advice(results)
        assert len(advice) == (0 if f1 else 2)
    assert advice[0] == "The model predicts no class for every row of dev." and "--class-weights" not in advice[1]


def test_sentences_to_predict(tmp_path):
    ask = asked_of(tmp_path / "run", "token-classification", ["tokens"], "tags", **KEPT)
    assert ask("Ada  went", "to Paris")["texts"] == [[["Ada", "went"]], [["to", "Paris"]]]
    rows = list(sentences(5))
    (tmp_path / "asked.txt").write_text(as_conll([*rows, {"tokens": ["EU"], "tags": ["B-ORG"]}]))
    request = ask(tmp_path / "asked.txt")
    assert request["texts"] == [[row["tokens"]] for row in [*rows, {"tokens": ["EU"]}]]
    assert request["labels"] == [*(TASK.read_label(row["tags"], KEPT) for row in rows), None]
    assert "rows without a label that the model knows: 1" in say(request["remarks"][-1])
    write(tmp_path / "asked.jsonl", [{"tokens": row["tokens"]} for row in rows])
    assert ask(tmp_path / "asked.jsonl")["labels"] is None
    write(tmp_path / "asked.jsonl", [{"tokens": ["room", 101]}])
    assert ask(tmp_path / "asked.jsonl")["texts"] == [[["room", "101"]]], "as in training"
    write(tmp_path / "asked.jsonl", [{"tokens": ["room", None]}])
    with pytest.raises(DataParallelError, match="'asked.jsonl', row 1: .*None.* is no list of words"):
        ask(tmp_path / "asked.jsonl")
    (tmp_path / "lines.txt").write_text("Ada went\nto Paris\n")
    with pytest.raises(DataParallelError, match="'lines.txt', line 1 is 'Ada went': give a word and its tag in each"):
        ask(tmp_path / "lines.txt")
    (tmp_path / "asked.csv").write_text("id,text\n1,Ada went\n")
    assert ask(tmp_path / "asked.csv")["texts"] == [[["Ada", "went"]]]
    with pytest.raises(DataParallelError, match="--out 'tags.csv' has an unknown suffix: give one of .conll, .txt, .j"):
        ask("Ada", out="tags.csv")

    logits = [np.eye(5)[tags] for tags in ([2, 4, 0], [])]
    found = TASK.predictions(logits, KEPT, False)
    assert found["tags"] == [["B-PER", "I-PER", "O"], []]
    assert found["entities"] == [[{"type": "PER", "first": 0, "last": 1}], []]
    answer = first_tokens(np.eye(5)[[0, 2, 4, 0]], np.array([1, 2]), 3)
    assert answer.argmax(axis=-1).tolist() == [2, 4, 0]
    write_predictions(
        tmp_path / "out.conll", [{"tokens": ["Ada"], "tags": ["B-PER"]}, {"tokens": ["x"], "tags": ["O"]}]
    )
    assert read_conll((tmp_path / "out.conll").read_text(), "out.conll") == [(["Ada"], ["B-PER"]), (["x"], ["O"])]


@pytest.mark.skipif(not (SHARED_DATA / "ner_zh").exists(), reason="needs the shared data")
def test_real_chinese_sentences():
    options = RecipeOptions(str(SHARED_DATA / "ner_zh"))
    data = TASK.read(options)
    assert {split: len(rows) for split, rows in data.splits.items()} == {"train": 4636, "dev": 2318}
    assert TASK.facts(data, options)["joiner"] == ""
    assert TASK.as_row("我们 好", {"joiner": ""}) == (["我", "们", "好"],)
