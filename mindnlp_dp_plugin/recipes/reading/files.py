"""Read a file as a table by pandas and ``datasets``; its kind is told by its contents first, then by its suffix."""

import csv
import io
import json
import re
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import datasets
import pandas
import pyarrow.parquet

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.reading import conll
from mindnlp_dp_plugin.recipes.reading.cells import as_text, is_number
from mindnlp_dp_plugin.recipes.reading.columns import KNOWN_NAMES
from mindnlp_dp_plugin.recipes.reading.encodings import decode
from mindnlp_dp_plugin.recipes.words import remark

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".xlsx", ".txt", *conll.SUFFIXES)
SEPARATORS = {",": Message("commas"), "\t": Message("tabs"), ";": Message("semicolons"), "|": Message("bars")}
USUAL = {".csv": ",", ".tsv": "\t"}
ROWS_TRIED = 100
MOST_LABEL_CHARACTERS = 60
FASTTEXT = "__label__"
CELLS = {"header": None, "dtype": object, "keep_default_na": False}


def read_file(
    path: Path, encoding: str | None, said: list[dict], known_labels: list[str] | None = None, tagged: bool = False
) -> pandas.DataFrame:
    """The rows of one file, a pandas table whose index has file and number of each.

    Args:
        path: The file.
        encoding: Of its text, if the user named one; otherwise found.
        said: Gets remarks of what was assumed.
        known_labels: If given, the rows may be without labels, and a file without columns may hold a text in each line.
        tagged: Whether a text is CoNLL, with columns of words and of tags; with ``known_labels`` if it looks like it.

    Raises:
        DataParallelError: If it is empty or cannot be read; the message says how to save it.
    """
    try:
        table = _read(path, encoding, said, known_labels, tagged)
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


def _read(path, encoding, said, known_labels, tagged):
    with path.open("rb") as file:
        beginning = file.read(4)
    suffix = path.suffix.lower()
    if beginning == b"PAR1" or suffix == ".parquet":
        return from_dataset(datasets.Dataset(pyarrow.parquet.read_table(path)))
    if beginning == b"PK\x03\x04" or suffix == ".xlsx":
        return _read_xlsx(path, said)
    text = decode(path, encoding, said)
    if not text.strip():
        return pandas.DataFrame()
    if suffix in (".json", ".jsonl") or text.lstrip().startswith(('{"', "[{")):
        return _read_json(text, are_rows=suffix == ".jsonl")
    if tagged and (known_labels is None or conll.looks_like_conll(text)):
        return pandas.DataFrame(conll.read_conll(text, path.name), columns=[conll.TOKENS, conll.TAGS])
    if conll.looks_like_conll(text):
        raise ValueError(
            tr(
                "it looks like CoNLL, a token and its tag in each line: train it with `mindnlp-dp recipe "
                "token-classification`"
            )
        )
    separator = _find_separator(text) or ("\t" if suffix == ".tsv" else None)
    if separator and (suffix in USUAL or separator == "\t" or _names_columns(text, separator)):
        if USUAL.get(suffix) != separator:
            separated = remark("columns are separated by {separator}", separator=remark(SEPARATORS[separator]))
            said.append(separated)
        return _with_names(_read_separated(text, separator), said)
    return _read_lines(text, suffix, known_labels)


def _find_separator(text):
    """What gives most of the first rows equally many columns, more than one; between equals, a header that we know."""
    best, most = None, 0.0
    for separator in SEPARATORS:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, quoting=_quoting(separator))
        try:
            widths = [len(row) for row in islice(filter(None, reader), ROWS_TRIED)]
        except csv.Error:
            continue
        agreeing = widths.count(widths[0]) / len(widths) + _names_columns(text, separator)
        if widths[0] > 1 and agreeing > most:
            best, most = separator, agreeing
    return best


def _names_columns(text, separator):
    first = text.split("\n", 1)[0]
    return separator in first and any(cell.strip(' "\r').lower() in KNOWN_NAMES for cell in first.split(separator))


def _quoting(separator):
    """In tab-separated files quotes are text."""
    return csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL


def _read_separated(text, separator):
    # Without a header of pandas' own: with one it takes the first of too many fields for an index, and says nothing.
    return pandas.read_csv(io.StringIO(text), sep=separator, quoting=_quoting(separator), **CELLS)


def _with_names(table, said):
    """The table with its first row as the names of its columns, unless that looks like the others."""
    if any(_is_value(*map(as_text, table[column])) for column in table):
        names = [f"column_{number}" for number in range(1, table.shape[1] + 1)]
        assumed = Message("no header: the first line is taken as data, and the columns are called {columns}")
        said.append(remark(assumed, columns=names))
        return table.set_axis(names, axis=1)
    names = [as_text(name) or f"column_{number}" for number, name in enumerate(table.iloc[0], 1)]
    names = [name if name not in names[:at] else f"{name}_{at + 1}" for at, name in enumerate(names)]
    return table[1:].set_axis(names, axis=1)


def _is_value(first, *others):
    """Whether the first cell of a column is one of its classes, or a number among numbers, and not its name.

    Classes are a few short values that come again: on average ten times each, or only two of them.
    """
    distinct = set(others) - {""}
    are_classes = 2 <= len(distinct) <= max(2, len(others) // 10) and len(distinct) < len(others)
    if first in others and are_classes and max(map(len, distinct)) <= MOST_LABEL_CHARACTERS:
        return True
    return is_number(first) and all(map(is_number, filter(None, others)))


def _read_json(text: str, are_rows: bool):
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        if text.lstrip().startswith("["):
            raise
        found = [_parse(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if isinstance(found, dict) and not are_rows:
        tables = [value for value in found.values() if _are_objects(value)]
        if not tables:
            return pandas.DataFrame(found, dtype=object)
        found = tables[0] if len(tables) == 1 else None
    found = [found] if isinstance(found, dict) else found
    if not _are_objects(found):
        raise ValueError(tr("it is no list of objects, and has no object in each line"))
    return pandas.DataFrame(found, dtype=object)


def _are_objects(value: Any):
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) and each for each in value)


def _parse(number, line):
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(tr("line {line}: {error}", line=number, error=error.msg)) from None


def _read_xlsx(path, said):
    """The first sheet that has rows; another one is a title page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like
        sheets = pandas.read_excel(io.BytesIO(path.read_bytes()), None, na_values=[""], engine="openpyxl", **CELLS)
    for title, sheet in sheets.items():
        filled, assumed = sheet.dropna(how="all").dropna(how="all", axis=1), []
        if filled.size and len(table := _with_names(filled, assumed)):
            others = [each for each in sheets if each != title]
            read = remark("sheet {sheet} is read, and not {others}", sheet=repr(title), others=others)
            said += [read, *assumed] if others else assumed
            return table
    return pandas.DataFrame()


def _read_lines(text, suffix, known_labels):
    """``<label> <text>`` in each line, also with fastText's mark before the label; or, to be predicted, a text."""
    # Not splitlines(): it takes U+2028, U+0085 and form feeds for ends of lines, which are inside of texts.
    lines = [line.strip() for line in re.split("\r\n|\r|\n", text) if line.strip()]
    pairs = [[*re.split(r"[ \t\u3000]+", line, maxsplit=1), ""][:2] for line in lines]
    labels, texts = [label.removeprefix(FASTTEXT) for label, _ in pairs], [rest for _, rest in pairs]
    if known_labels is not None and sum(label in known_labels for label in labels) <= 0.5 * len(labels):
        cells = _read_separated(text, ",")[0].tolist() if suffix == ".csv" else lines  # which may be quoted
        return pandas.DataFrame({"text": cells}, dtype=object)
    if any(each.startswith(FASTTEXT) for each in texts):
        raise ValueError(
            tr("a line has several __label__; multi-label data are jsonl with a list of labels in each row")
        )
    if not any(texts) or len(set(labels)) > max(2, 0.5 * len(labels)):
        raise ValueError(tr("it has neither columns that are known nor a `<label> <text>` in each line"))
    return pandas.DataFrame({"label": labels, "text": texts}, dtype=object)
