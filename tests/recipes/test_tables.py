"""Reading data sets: every format, columns found or named, labels, empty rows, splits."""

import csv
import json

import datasets
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.columns import find_columns
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.words import say
from tests.harness import REPOSITORY

SHARED_DATA = REPOSITORY.parent / "shared" / "data"


def write(path, rows):
    """The rows (dicts) in the format that the path's ending says."""
    kind = path.suffix
    if kind in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            quoting = {"delimiter": "\t", "quoting": csv.QUOTE_NONE, "quotechar": None} if kind == ".tsv" else {}
            writer = csv.writer(file, **quoting)
            writer.writerows([list(rows[0]), *(row.values() for row in rows)])
    elif kind == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    elif kind == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif kind == ".parquet":
        datasets.Dataset.from_list(rows).to_parquet(str(path))
    else:
        path.write_text("".join(f"{row['label']} {row['text']}\n" for row in rows), encoding="utf-8")
    return path


def read_labelled_texts(path, text_column=(), label_column=None, **options):
    return get_task("classification").read(RecipeOptions(path, text_column, label_column, **options))


def refusal(task, path, **options):
    """The line with which a task refuses data."""
    with pytest.raises(DataParallelError) as refused:
        get_task(task).read(RecipeOptions(str(path), **options))
    assert "\n" not in str(refused.value)
    return str(refused.value)


def reviews(num_rows=40, labels=("bad", "good")):
    return [{"text": f"review {row}", "label": labels[row % len(labels)]} for row in range(num_rows)]


def contents(texts):
    """Every row of every split, with the label's name."""
    return sorted(
        (*(row[name] for name in ("text", "text_pair") if name in row), texts.label_names[row["label"]])
        for split in texts.splits.values()
        for row in split
    )


@pytest.mark.parametrize("kind", ["csv", "tsv", "json", "jsonl", "parquet", "txt"])
@settings(max_examples=12)
@given(
    drawn=st.lists(
        st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=12).map(lambda text: f"a {text}"),
        min_size=4,
        max_size=30,
        unique=True,
    )
)
def test_every_format_gives_the_same_rows(tmp_path_factory, kind, drawn):
    rows = [{"text": text, "label": ("no", "yes")[row % 2]} for row, text in enumerate(drawn)]
    path = write(tmp_path_factory.mktemp("formats") / f"data.{kind}", rows)
    texts = read_labelled_texts(str(path))
    assert contents(texts) == sorted((row["text"], row["label"]) for row in rows)
    assert texts.label_names == ["no", "yes"]


def test_a_csv_with_quotes_line_breaks_and_a_byte_order_mark(tmp_path):
    path = tmp_path / "data.csv"
    odd = ['said "yes",\nthen no', "  房间很大  ", "None", "1,000 stars"]
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file).writerows([("review", "label"), *((text, row % 2) for row, text in enumerate(odd * 3))])
    assert {text for text, _ in contents(read_labelled_texts(str(path)))} == {text.strip() for text in odd}


def test_quotes_in_tab_separated_files_are_text(tmp_path):
    path = tmp_path / "data.tsv"
    path.write_text("sentence\tlabel\n" + "".join(f'"half a quote {n}\t0\nplain {n}\t1\n' for n in range(4)))
    expected = [*((f'"half a quote {n}', "0") for n in range(4)), *((f"plain {n}", "1") for n in range(4))]
    assert contents(read_labelled_texts(str(path))) == expected


@pytest.mark.parametrize(
    "labels, names",
    [
        ([0, 1], ["0", "1"]),
        ([10, 9, 1], ["1", "9", "10"]),
        ([5.0, 1.0], ["1", "5"]),
        ([True, False], ["False", "True"]),
        (["neutral", "bad", "good"], ["bad", "good", "neutral"]),
        (["None", "NA"], ["NA", "None"]),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_labels_as_text_or_numbers(tmp_path, labels, names, kind):
    path = write(tmp_path / f"data.{kind}", reviews(30, labels))
    if kind == "csv" and 5.0 in labels:
        names = ["1.0", "5.0"]  # a csv holds text
    assert read_labelled_texts(str(path)).label_names == names


def test_150_classes(tmp_path):
    texts = read_labelled_texts(str(write(tmp_path / "data.csv", reviews(900, list(range(150))))))
    assert texts.label_names == [str(number) for number in range(150)]
    assert set(texts.splits["dev"]["label"]) == set(texts.splits["train"]["label"]) == set(range(150))


def test_class_labels_of_a_hub_data_set_keep_their_order(tmp_path):
    kinds = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["pos", "neg"])})
    for split, labels in (("train", [0, 1] * 10), ("test", [-1] * 4)):
        rows = datasets.Dataset.from_dict({"text": [f"t{n}" for n in range(len(labels))], "label": labels}, kinds)
        rows.to_parquet(str(tmp_path / f"{split}-00000-of-00001.parquet"))
    texts = read_labelled_texts(str(tmp_path))
    assert texts.label_names == ["pos", "neg"] and sorted(texts.splits) == ["dev", "train"]
    assert "test: empty rows dropped: 4 of 4" in list(map(say, texts.remarks))


def test_empty_rows_are_counted_and_dropped(tmp_path):
    rows = [*reviews(40), {"text": "", "label": "bad"}, {"text": "  ", "label": "good"}, {"text": "x", "label": ""}]
    texts = read_labelled_texts(str(write(tmp_path / "data.csv", rows)))
    assert "train: empty rows dropped: 3 of 43" in list(map(say, texts.remarks))
    assert len(contents(texts)) == 40


@pytest.mark.parametrize(
    "columns, texts, label",
    [
        (["id", "review", "label"], ["review"], "label"),
        (["Premise", "Hypothesis", "Label"], ["Premise", "Hypothesis"], "Label"),
        (["stars", "notes", "content"], ["content"], "stars"),
    ],
)
def test_columns_are_found(columns, texts, label):
    def cell(name, row):
        if name in (*texts, "notes", "words"):
            return f"{name} number {row} of {'very ' * 9 * (name == 'notes')}many"
        return row % 2 if name == label else row

    table = pandas.DataFrame({name: [cell(name, row) for row in range(60)] for name in columns})
    assert find_columns(table) == (tuple(texts), label)


def test_named_columns_win(tmp_path):
    rows = [{"text": "same", "title": f"t{row}", "label": 0, "kind": "ab"[row % 2]} for row in range(20)]
    texts = read_labelled_texts(str(write(tmp_path / "data.jsonl", rows)), ("title",), "kind")
    assert texts.label_names == ["a", "b"] and ("t3", "b") in contents(texts)
    pairs = read_labelled_texts(str(tmp_path / "data.jsonl"), ("title", "text"), "kind")
    assert ("t3", "same", "b") in contents(pairs)


def test_columns_without_a_name_that_is_known_are_asked_for():
    rows = {"words to say": [f"row {row}" for row in range(40)], "a": [0, 1] * 20}
    with pytest.raises(DataParallelError, match="none of the columns words to say, a is called text, or a word like"):
        find_columns(pandas.DataFrame(rows))
    with pytest.raises(DataParallelError, match="called label, or a word .*in the first row of the file, or give --la"):
        find_columns(pandas.DataFrame(rows), ("words to say",))


@given(seed=st.integers(0, 99), counts=st.lists(st.integers(2, 60), min_size=2, max_size=5))
@settings(max_examples=20)
def test_the_dev_split_is_stratified_seeded_and_whole(tmp_path_factory, seed, counts):
    path = tmp_path_factory.mktemp("splits") / "data.jsonl"
    rows = [{"text": f"row {kind} {row}", "label": kind} for kind, count in enumerate(counts) for row in range(count)]
    first, again = (read_labelled_texts(str(write(path, rows)), seed=seed) for _ in range(2))
    assert first.splits["dev"]["text"] == again.splits["dev"]["text"]
    assert contents(first) == sorted((row["text"], str(row["label"])) for row in rows)
    share = max(len(counts), round(0.1 * len(rows))) / len(rows)
    for kind, count in enumerate(counts):
        assert abs(first.splits["dev"]["label"].count(kind) - share * count) <= 1


def test_a_folder_with_its_splits(tmp_path):
    (tmp_path / "README.txt").write_text("not a split")
    for split, num_rows in (("train", 20), ("valid", 6), ("test", 4)):
        write(tmp_path / f"my.{split}.csv", reviews(num_rows))
    texts = read_labelled_texts(str(tmp_path))
    assert {name: len(rows) for name, rows in texts.splits.items()} == {"train": 20, "dev": 6, "test": 4}


@pytest.mark.skipif(not SHARED_DATA.exists(), reason="needs ../shared/data, which is not part of the project")
def test_real_data_sets():
    hotels = read_labelled_texts(str(SHARED_DATA / "chnsenticorp"))
    assert "train: empty rows dropped: 1 of 7766" in list(map(say, hotels.remarks))
    assert {name: len(rows) for name, rows in hotels.splits.items()} == {"train": 6989, "dev": 776}
    films = read_labelled_texts(str(SHARED_DATA / "sst2"))
    assert {name: len(rows) for name, rows in films.splits.items()} == {"train": 6920, "dev": 872, "test": 1821}
    assert read_labelled_texts(str(SHARED_DATA / "imdb_sample")).label_names == ["0", "1"]


def test_files_for_dev_and_test_of_their_own(tmp_path):
    for name, num_rows in (("a", 40), ("b", 6), ("c", 4)):
        write(tmp_path / f"{name}.csv", [{**row, "text": f"{name} {row['text']}"} for row in reviews(num_rows)])
    options = {"dev_file": str(tmp_path / "b.csv"), "test_file": str(tmp_path / "c.csv")}
    texts = read_labelled_texts(str(tmp_path / "a.csv"), **options)
    assert {name: len(rows) for name, rows in texts.splits.items()} == {"train": 40, "dev": 6, "test": 4}
    with pytest.raises(DataParallelError, match="--test-file 'nowhere.csv' does not exist"):
        read_labelled_texts(str(tmp_path / "a.csv"), test_file="nowhere.csv")


def test_a_split_that_is_saved_twice_is_not_read_twice(tmp_path):
    (tmp_path / "data").mkdir()
    for name in ("train.csv", "train.jsonl"):
        write(tmp_path / "data" / name, reviews())
    words = "folder '{}' has train.csv, train.jsonl: two kinds of files would be read as twice the rows: keep one."
    assert words.format(tmp_path / "data") in refusal("classification", tmp_path / "data")


def test_a_folder_of_files_that_only_their_names_tell(tmp_path):
    for split, num_rows in (("train", 40), ("test", 4)):
        path = tmp_path / f"TREC.{split}.all"
        path.write_bytes(
            "".join(f"{row['label']} {row['text']} señor\n" for row in reviews(num_rows)).encode("latin-1")
        )
    texts = read_labelled_texts(str(tmp_path), encoding="latin-1")
    assert sorted(texts.splits) == ["dev", "test", "train"] and "señor" in texts.splits["test"]["text"][0]


def test_names_for_classes(tmp_path):
    from mindnlp_dp_plugin.recipes.tasks.classification import TASK

    path = str(write(tmp_path / "data.csv", reviews(40, ("0", "1"))))
    named = RecipeOptions(path, label_name=("0=bad", "1=good"), positive_label="good")
    data = TASK.read(named)
    facts = TASK.facts(data, named)
    assert data.label_names == ["bad", "good"] and facts["positive_label"] == "good"
    assert [TASK.read_label(cell, facts) for cell in ("0", 1, "good", "2")] == [0, 1, 1, None]
    with pytest.raises(DataParallelError, match="--label-name '2=odd' names no class: give one such as 0=..., of the"):
        TASK.read(RecipeOptions(path, label_name=("2=odd",)))
    with pytest.raises(DataParallelError, match="gives two classes one name: same, same"):
        TASK.read(RecipeOptions(path, label_name=("0=same", "1=same")))
