"""Read a file as a table by pandas and ``datasets``. Its suffix says what it is, its first row names the columns."""

import csv
import io
import json
import re
import warnings
from pathlib import Path
from typing import Any

import datasets
import pandas
import pyarrow.parquet

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.recipes import conll
from mindnlp_dp_plugin.recipes.encodings import decode

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".xlsx", ".txt", *conll.SUFFIXES)
SEPARATORS = (",", "\t", ";", "|")
FASTTEXT = "__label__"
CELLS = {"header": None, "dtype": object, "keep_default_na": False}
SURROGATES = {code: "\ufffd" for code in range(0xD800, 0xE000)}


def read_file(
    path: Path,
    said: list[dict],
    encoding: str | None = None,
    tagged: bool = False,
    known_labels: list[str] | None = None,
) -> pandas.DataFrame:
    """The rows of one file, a pandas table whose index has file and number of each.

    Args:
        path: The file.
        said: Gets a remark if the encoding had to be assumed.
        encoding: Of its text, if the user named one.
        tagged: Whether a text without columns is CoNLL; else it has ``<label> <text>`` in each line.
        known_labels: If given, it may have a text in each line instead.

    Raises:
        DataParallelError: If it is empty or cannot be read; the message says how to save it.
    """
    try:
        table = _read(path, said, encoding, tagged, known_labels)
    except DataParallelError:
        raise
    except Exception as error:  # of pandas, pyarrow, openpyxl, zip and XML
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataParallelError(
            "{path!r} cannot be read ({reason}): mend it, or save it as csv or jsonl in UTF-8, xlsx or parquet.",
            path=str(path),
            reason=reason,
        ) from None
    if table.empty:
        raise DataParallelError(
            "{path!r} has no rows: give a file with a text and a label in each row.", path=str(path)
        )
    return numbered(table, path.name)


def numbered(table: pandas.DataFrame, file: str) -> pandas.DataFrame:
    """The table with an index that tells where each row is from."""
    return table.set_axis(pandas.MultiIndex.from_product([[file], range(1, len(table) + 1)]))


def place(row: tuple[str, int]) -> str:
    """Where a row is from, for messages: its file, and its number among the rows."""
    return tr("{file!r}, row {number}", file=row[0], number=row[1])


def as_text(value: Any) -> str:
    """A cell's content, without blanks around it; nothing for missing ones. Whole numbers have no point: 1, not 1.0."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().translate(SURROGATES)


def one_text(value: Any) -> str:
    """The same of what is one text or number: a ValueError says that it is a list or an object."""
    if is_list(value) or isinstance(value, dict):
        raise ValueError(tr("{cell!r} is no text and no number, but a list or an object", cell=value))
    return as_text(value)


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def is_list(value: Any) -> bool:
    """Whether a cell holds several things."""
    return isinstance(value, (list, tuple))


def from_dataset(rows: datasets.Dataset) -> pandas.DataFrame:
    """A Hugging Face data set as a table, with the names of classes in place of their numbers."""
    table = pandas.DataFrame(rows.to_dict(), dtype=object)
    for name, kind in rows.features.items():
        if isinstance(kind, datasets.ClassLabel):
            numbers = [-1 if number is None else number for number in table[name]]
            table[name] = pandas.Categorical.from_codes(numbers, kind.names)
        elif isinstance(names := getattr(kind, "feature", None), datasets.ClassLabel):
            table[name] = [cell and [names.names[number] for number in cell] for cell in table[name]]
    return table


def _read(path, said, encoding, tagged, known_labels):
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        return from_dataset(datasets.Dataset(pyarrow.parquet.read_table(path)))
    if suffix == ".xlsx":
        return _read_xlsx(path)
    text = decode(path, encoding, said)
    if not text.strip():
        return pandas.DataFrame()
    if suffix in (".json", ".jsonl"):
        return _read_json(text)
    if suffix in (".csv", ".tsv"):
        # Without a header of pandas' own: with one it takes the first of too many fields for an index in silence.
        separator = "\t" if suffix == ".tsv" else max(SEPARATORS, key=text.lstrip().split("\n")[0].count)
        quoting = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL  # between tabs quotes are text
        return _with_names(pandas.read_csv(io.StringIO(text), sep=separator, quoting=quoting, **CELLS))
    if tagged:
        return pandas.DataFrame(conll.read_conll(text, path.name), columns=[conll.TOKENS, conll.TAGS])
    return _read_lines(text, known_labels)


def _with_names(table):
    """The table with its first row as the names of its columns."""
    names = [as_text(name) or f"column_{number}" for number, name in enumerate(table.iloc[0], 1)]
    names = [name if name not in names[:at] else f"{name}_{at + 1}" for at, name in enumerate(names)]
    return table[1:].set_axis(names, axis=1)


def _read_json(text):
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        if text.lstrip().startswith("["):
            raise
        found = [_parse(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    found = [found] if isinstance(found, dict) else found
    if not isinstance(found, list) or not all(isinstance(each, dict) and each for each in found):
        raise ValueError(tr("it is no list of objects, and has no object in each line"))
    return pandas.DataFrame(found, dtype=object)


def _parse(number, line):
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(tr("line {line}: {error}", line=number, error=error.msg)) from None


def _read_xlsx(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like
        sheets = pandas.read_excel(io.BytesIO(path.read_bytes()), None, na_values=[""], engine="openpyxl", **CELLS)
    filled = [sheet.dropna(how="all").dropna(how="all", axis=1) for sheet in sheets.values()]
    filled = [sheet for sheet in filled if sheet.size]
    if len(filled) > 1:
        raise ValueError(tr("it has several sheets: keep the one with the rows"))
    return _with_names(filled[0]) if filled else pandas.DataFrame()


def _read_lines(text, known_labels):
    """``<label> <text>`` in each line, also with fastText's mark before the label; or, to be predicted, a text."""
    # Not splitlines(): it takes U+2028, U+0085 and form feeds for ends of lines, which are inside of texts.
    lines = [line.strip() for line in re.split("\r\n|\r|\n", text) if line.strip()]
    pairs = [[*re.split(r"[ \t\u3000]+", line, maxsplit=1), ""][:2] for line in lines]
    labels, texts = [label.removeprefix(FASTTEXT) for label, _ in pairs], [rest for _, rest in pairs]
    if known_labels is not None and sum(label in known_labels for label in labels) <= 0.5 * len(labels):
        return pandas.DataFrame({"text": lines}, dtype=object)
    if all(conll.TAG.fullmatch(line.split()[-1]) for line in lines):
        raise ValueError(
            tr(
                "it looks like CoNLL, a token and its tag in each line: train it with `mindnlp-dp recipe "
                "token-classification`"
            )
        )
    if any(each.startswith(FASTTEXT) for each in texts):
        raise ValueError(
            tr("a line has several __label__; multi-label data are jsonl with a list of labels in each row")
        )
    if not any(texts) or len(set(labels)) > max(2, 0.5 * len(labels)):
        raise ValueError(tr("its name does not end in .csv or the like, and it has no `<label> <text>` in each line"))
    return pandas.DataFrame({"label": labels, "text": texts}, dtype=object)
