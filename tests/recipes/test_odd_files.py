"""Files as people have them: read as meant, or refused with a line that says how to save them."""

import csv
import gzip
import io
import json

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.tasks import get_task
from mindnlp_dp_plugin.recipes.words import say
from tests.recipes.test_tables import refusal

ROWS = [(f"房间 {number} 很大，早餐不错", "好") for number in range(20)]
ROWS += [(f"距离公路太近 {number}，吵", "差") for number in range(20)]
TAIWAN = [(f"房間 {number} 很大，早餐不錯", "好") for number in range(20)]
TAIWAN += [(f"距離公路太近 {number}，吵", "差") for number in range(20)]
LATIN = [(f"C'était très agréable, chambre {number}", "bon") for number in range(20)]
LATIN += [(f"La fête à côté était gênante {number}", "mauvais") for number in range(20)]
SAME = [(f"row {number} is fine", "ab"[number % 2]) for number in range(40)]


def read_labelled_texts(path, **options):
    return get_task("classification").read(RecipeOptions(path, **options))


def as_csv(rows, header=("text", "label"), **options):
    file = io.StringIO()
    csv.writer(file, **options).writerows([*([header] if header else []), *rows])
    return file.getvalue()


def as_xlsx(rows, header=("text", "label"), before=(), titles=("Sheet1",)):
    book = openpyxl.Workbook()
    book.active.title = titles[0]
    for row in [*before, *([header] if header else []), *rows]:
        book.active.append(row)
    for title in titles[1:]:
        book.create_sheet(title)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def with_title_page(workbook):
    book = openpyxl.load_workbook(io.BytesIO(workbook))
    book.create_sheet("about", 0).append(["these rows are ours"])
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def as_jsonl(rows):
    return "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)


def contents(texts):
    rows = (row for split in texts.splits.values() for row in split)
    return sorted((row["text"], texts.label_names[row["label"]]) for row in rows)


def objects(rows):
    return [{"text": text, "label": label} for text, label in rows]


INSIDE = [(f"before\u2028after\u0085and\x0cthen {number}", "ab"[number % 2]) for number in range(40)]
NUMBERED = [(f"text {number}", str(number % 3)) for number in range(60)]
READ = {
    "gb18030.csv": (as_csv(ROWS).encode("gb18030"), ROWS, "was read as gb18030"),
    "gbk_names.csv": (as_csv(ROWS, ("评论", "标签")).encode("gbk"), ROWS, "text: 评论; label: 标签"),
    "gbk_lines.txt": ("".join(f"{label} {text}\n" for text, label in ROWS).encode("gbk"), ROWS, "gb18030"),
    "utf16_without_mark.csv": (as_csv(SAME).encode("utf-16-le"), SAME, "was read as utf-16-le"),
    "latin.csv": (as_csv(LATIN).encode("latin-1"), LATIN, "was read as cp1252"),
    "big5.csv": (as_csv(TAIWAN).encode("big5"), TAIWAN, "was read as big5"),
    "utf16.csv": (as_csv(ROWS).encode("utf-16"), ROWS, ""),
    "chinese_names.csv": (as_csv(ROWS, ("评论", "标签")).encode(), ROWS, "text: 评论; label: 标签"),
    "bom.csv": (as_csv(ROWS).encode("utf-8-sig"), ROWS, ""),
    "bom.jsonl": (as_jsonl(SAME).encode("utf-8-sig"), SAME, ""),
    "crlf.tsv": (b"text\tlabel\r\n" + "".join(f"{a}\t{b}\r\n" for a, b in SAME).encode(), SAME, ""),
    "semicolons.csv": (as_csv(SAME, delimiter=";").encode(), SAME, ""),
    "bars.csv": (as_csv(SAME, delimiter="|").encode(), SAME, ""),
    "tabs.csv": (as_csv(SAME, delimiter="\t").encode(), SAME, ""),
    "semicolons_and_commas.csv": (
        as_csv(ROWS + [("a, b, c", "好")], delimiter=";").encode(),
        ROWS + [("a, b, c", "好")],
        "",
    ),
    "data.dat": ("".join(f"{label} {text}\n" for text, label in SAME).encode(), SAME, ""),
    "fasttext.train": ("".join(f"__label__{label} {text}\n" for text, label in SAME).encode(), SAME, ""),
    "label_tab_text.txt": ("".join(f"{label}\t{text}\n" for text, label in SAME).encode(), SAME, ""),
    "book.xlsx": (as_xlsx(ROWS, ("评论", "标签")), ROWS, ""),
    "numbers.xlsx": (as_xlsx([(text, int(label)) for text, label in NUMBERED]), NUMBERED, ""),
    "empty_rows_first.xlsx": (as_xlsx(SAME, before=[(None, None), ()]), SAME, ""),
    "empty_sheet.xlsx": (as_xlsx(SAME, titles=("rows", "Sheet2")), SAME, ""),
    "lines.json": (as_jsonl(SAME).encode(), SAME, ""),
    "indented.json": (json.dumps(objects(SAME), indent=2).encode(), SAME, ""),
    "ends_of_lines_inside.jsonl": (
        "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects(INSIDE)).encode(),
        INSIDE,
        "",
    ),
    "ends_of_lines_inside.csv": (as_csv(INSIDE).encode(), INSIDE, ""),
    "ends_of_lines_inside.txt": ("".join(f"{label} {text}\n" for text, label in INSIDE).encode(), INSIDE, ""),
    "surrogate.jsonl": (
        as_jsonl(SAME).encode() + b'{"text": "half \\ud83d an emoji", "label": "a"}\n',
        [*SAME, ("half \ufffd an emoji", "a")],
        "",
    ),
    "dollars.csv": (
        as_csv([(text, {"a": "$x_1$", "b": "\\frac"}[label]) for text, label in SAME]).encode(),
        [(text, {"a": "$x_1$", "b": "\\frac"}[label]) for text, label in SAME],
        "",
    ),
    "one_of_a_class.csv": (
        as_csv([*SAME, ("the only one", "rare")]).encode(),
        [*SAME, ("the only one", "rare")],
        "classes with one text only stay in train, and cannot be scored: rare",
    ),
    "spellings.csv": (
        as_csv([(text, ("Pos", "pos ", "P os", "neg")[n % 4]) for n, (text, _) in enumerate(SAME)]).encode(),
        [(text, ("Pos", "pos", "P os", "neg")[n % 4]) for n, (text, _) in enumerate(SAME)],
        "'P os', 'Pos', 'pos' differ by case or blanks only, and are 3 classes",
    ),
    "short_rows.csv": (as_csv([*SAME, ("no label",)]).encode(), SAME, "train: empty rows dropped: 1 of 41"),
}


@pytest.mark.parametrize("name", READ)
def test_read_as_meant(tmp_path, name):
    content, rows, remark = READ[name]
    (tmp_path / name).write_bytes(content)
    texts = read_labelled_texts(str(tmp_path / name))
    assert contents(texts) == sorted(rows)
    assert remark in "\n".join(map(say, texts.remarks))
    if name.startswith("one_of"):
        assert "the only one" in texts.splits["train"]["text"]


UNNAMED = "is called text, or a word like it: name it so in the first row of the file, or give --text-column"
REFUSED = {
    "no_header.csv": (as_csv(SAME, None).encode(), f"none of the columns row 0 is fine, a {UNNAMED}"),
    "no_header.xlsx": (as_xlsx(SAME, None), UNNAMED),
    "lines.csv": ("".join(f"{label} {text}\n" for text, label in SAME).encode(), UNNAMED),
    "no_suffix": (
        ("text,label\n" + "".join(f"{n},a\n" for n in range(9))).encode(),
        "its name does not end in .csv or the like, and it has no `<label> <text>` in each line",
    ),
    "named_wrong.csv": (as_xlsx(SAME), "is not recognized: save it as csv in UTF-8"),
    "title_page.xlsx": (with_title_page(as_xlsx(SAME)), "it has several sheets: keep the one with the rows"),
    "wrapped.json": (
        json.dumps({"version": 1, "data": objects(SAME)}).encode(),
        f"none of the columns version, data {UNNAMED}",
    ),
    "columns.json": (
        json.dumps({"text": [a for a, _ in SAME], "label": [b for _, b in SAME]}).encode(),
        "column 'text' holds no text (for example ['row 0 is fine', 'row 1 is fine'",
    ),
    "too_many.csv": (
        b"text,label\nfine,1\ntoo,many,0\n",
        "(Error tokenizing data. C error: Expected 2 fields in line 3, saw 3): mend it",
    ),
    "open_quote.csv": (as_csv(SAME).encode() + b'"never closed,a\nmore,b\n', "EOF inside string starting at row 41"),
    "cut.jsonl": (b'{"text": "a", "label": 1}\n{"text": "b", "la', "line 2"),
    "broken.json": (b'[{"text": "a"},\n nonsense]', "line 2"),
    "numbers.json": (b"[1, 2, 3]", "it is no list of objects"),
    "number.json": (b"5", "it is no list of objects"),
    "splits.json": (json.dumps({"train": objects(SAME), "test": objects(SAME)}).encode(), UNNAMED),
    "data.parquet": (b"no parquet", "data.parquet' cannot be read"),
    "empty.csv": (b"", "has no rows"),
    "blank.txt": (b" \n\n", "has no rows"),
    "header_only.csv": (b"text,label\n", "has no rows"),
    "broken.xlsx": (b"no workbook", "broken.xlsx' cannot be read (File is not a zip file): mend it, or save it as csv"),
    "empty.xlsx": (as_xlsx([], None), "has no rows"),
    "old.xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "save it as csv in UTF-8"),
    "packed.csv.gz": (gzip.compress(b"text,label\n"), "save it as csv in UTF-8"),
    "picture.csv": (bytes(range(256)) * 20, "is not recognized: save it"),
    "mixed.csv": (
        as_csv(ROWS * 3).encode() + "房间,好\n".encode("gbk"),
        "is UTF-8 but for 6 characters, the first in line 122",
    ),
    "entities.txt": (
        "中 B-LOC\n国 I-LOC\n人 O\n\n".encode() * 20,
        "it looks like CoNLL, a token and its tag in each line",
    ),
    "entities.conll": (b"EU NNP B-ORG\nrejects VBZ O\nGerman JJ B-MISC\n\n" * 20, "it looks like CoNLL"),
    "many.jsonl": (
        as_jsonl([(text, ["a", "b"]) for text, _ in SAME]).encode(),
        "several labels for each text with `mindnlp-dp recipe multi-label`",
    ),
    "objects.jsonl": (
        as_jsonl([(text, {"name": label, "id": 1}) for text, label in SAME]).encode(),
        "'objects.jsonl', row 1: {'name': 'a', 'id': 1} is no text and no number, but a list or an object",
    ),
    "words.jsonl": (
        (as_jsonl(SAME) + as_jsonl([(["row", "of", "words"], "a")])).encode(),
        "'words.jsonl', row 41: ['row', 'of', 'words'] is no text and no number, but a list or an object",
    ),
    "many_lines.txt": (b"__label__a __label__b fine\n" * 20, "a line has several __label__"),
    "scores.csv": (
        as_csv([(a, n / 7) for n, (a, _) in enumerate(SAME)]).encode(),
        "which are no classes: train numbers with `mindnlp-dp recipe regression`",
    ),
    "prose.txt": (b"".join(b"w%d and other words\n" % n for n in range(40)), "it has no `<label> <text>` in each line"),
    "one_class.csv": (as_csv([(text, "a") for text, _ in SAME]).encode(), "holds one class only, 'a'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_line_that_helps(tmp_path, name):
    content, words = REFUSED[name]
    (tmp_path / name).write_bytes(content)
    assert words in refusal("classification", tmp_path / name)


def test_a_named_encoding_wins(tmp_path):
    (tmp_path / "data.csv").write_bytes(as_csv(LATIN).encode("latin-1"))
    (tmp_path / "greek.csv").write_bytes(as_csv(SAME + [("καλό", "a")]).encode("iso8859_7"))
    greek = read_labelled_texts(str(tmp_path / "greek.csv"), encoding="iso8859_7")
    assert ("καλό", "a") in contents(greek) and not any("was read as" in say(remark) for remark in greek.remarks)
    with pytest.raises(DataParallelError, match="is not utf-8 .line 2.: give another --encoding"):
        read_labelled_texts(str(tmp_path / "data.csv"), encoding="utf-8")
    with pytest.raises(DataParallelError, match="--encoding 'utf-9' is not known"):
        read_labelled_texts(str(tmp_path / "data.csv"), encoding="utf-9")


def test_rows_of_the_same_text_stay_on_one_side_of_the_split(tmp_path):
    rows = [(f"text {number % 30}", "ab"[number % 2]) for number in range(90)]
    (tmp_path / "data.csv").write_text(as_csv(rows))
    texts = read_labelled_texts(str(tmp_path / "data.csv"))
    assert not set(texts.splits["train"]["text"]) & set(texts.splits["dev"]["text"])
    assert contents(texts) == sorted(rows) and len(texts.splits["dev"]) == 9


PIECES = st.sampled_from([b'"', b"\n", b",", b"\t", b"{", b"]", b"\xff", b"\0", b"'", b"__label__"])


@given(
    name=st.sampled_from([*READ, *REFUSED]),
    suffix=st.sampled_from([".csv", ".tsv", ".jsonl", ".txt", ".xlsx", ".parquet", ".dat"]),
    cut=st.floats(0, 1),
    places=st.lists(st.tuples(st.floats(0, 1), PIECES), max_size=4),
)
@settings(max_examples=150)
def test_damaged_files_are_read_or_refused_in_one_line(tmp_path_factory, name, suffix, cut, places):
    content = ({**READ, **REFUSED}[name])[0]
    content = content[: round(cut * len(content))]
    for place, piece in places:
        at = round(place * len(content))
        content = content[:at] + piece + content[at:]
    path = tmp_path_factory.mktemp("damaged") / f"data{suffix}"
    path.write_bytes(content)
    try:
        read_labelled_texts(str(path))
    except DataParallelError as refused:
        assert "\n" not in str(refused)
