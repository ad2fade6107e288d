"""Read a file as a table by pandas and ``datasets``; its kind is told by its contents first, then by its suffix."""

import csv
import io
import json
import warnings
from itertools import islice
from pathlib import Path

import datasets
import pandas
import pyarrow.parquet

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.reading import lines
from mindnlp_dp_plugin.recipes.reading.columns import KNOWN_NAMES
from mindnlp_dp_plugin.recipes.reading.decoding import decode
from mindnlp_dp_plugin.recipes.reading.table import Table, from_records, from_rows
from mindnlp_dp_plugin.recipes.words import remark

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".xlsx", ".txt")
SEPARATORS = {",": Message("commas"), "\t": Message("tabs"), ";": Message("semicolons"), "|": Message("bars")}
USUAL = {".csv": ",", ".tsv": "\t"}
ROWS_TRIED = 100


def read_file(path: Path, encoding: str | None = None, known_labels: list[str] | None = None) -> Table:
    """The rows of one file.

    Args:
        path: The file.
        encoding: Of its text, if the user named one; otherwise found.
        known_labels: If given, the rows may be without labels, and a file without columns may hold a text in each line.

    Raises:
        DataParallelError: If it is empty or cannot be read; the message says how to save it.
    """
    try:
        table = _read(path, encoding, known_labels)
    except DataParallelError:
        raise
    except Exception as error:  # of pandas, pyarrow, openpyxl, zip and XML
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataParallelError(
            "{path!r} cannot be read ({reason}): mend it, or save it as csv or jsonl in UTF-8, xlsx or parquet.",
            path=str(path),
            reason=reason,
        ) from None
    if len(table) == 0:
        raise DataParallelError(
            "{path!r} has no rows: give a file with a text and a label in each row.", path=str(path)
        )
    table.files = [(path.name, len(table))]
    return table


def from_dataset(rows: datasets.Dataset) -> Table:
    """A Hugging Face data set as a table."""
    kinds = {name: getattr(kind, "feature", kind) for name, kind in rows.features.items()}
    named = {name: list(kind.names) for name, kind in kinds.items() if isinstance(kind, datasets.ClassLabel)}
    return Table(rows.to_dict(), [], named)


def _read(path, encoding, known_labels):
    with path.open("rb") as file:
        beginning = file.read(4)
    suffix = path.suffix.lower()
    if beginning == b"PAR1" or suffix == ".parquet":
        return from_dataset(datasets.Dataset(pyarrow.parquet.read_table(path)))
    if beginning == b"PK\x03\x04" or suffix == ".xlsx":
        return _read_xlsx(path)
    text, remarks = decode(path, encoding)
    text = text.removeprefix("\ufeff")
    table = _read_text(text, suffix, known_labels) if text.strip() else Table({})
    table.remarks[:0] = remarks
    return table


def _read_text(text, suffix, known_labels):
    if suffix in (".json", ".jsonl") or text.lstrip().startswith(('{"', "[{")):
        return _read_json(text, are_rows=suffix == ".jsonl")
    if lines.looks_like_conll(text):
        raise ValueError(
            tr(
                "it looks like CoNLL, a token and its tag in each line: train it with `mindnlp-dp recipe "
                "token-classification`"
            )
        )
    separator = _find_separator(text) or ("\t" if suffix == ".tsv" else None)
    if separator and (suffix in USUAL or separator == "\t" or _names_columns(text, separator)):
        frame = _read_separated(text, separator)
        table = from_rows(frame.values.tolist())
        if USUAL.get(suffix) != separator:
            said = remark(Message("columns are separated by {separator}"), separator=remark(SEPARATORS[separator]))
            table.remarks.insert(0, said)
        return table
    if known_labels is None or lines.are_labelled(text, known_labels):
        return lines.read_labelled(text)
    texts = _read_separated(text, ",")[0].tolist() if suffix == ".csv" else lines.split(text)  # which may be quoted
    return Table({"text": texts})


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
    as_text = {"header": None, "dtype": object, "keep_default_na": False}
    return pandas.read_csv(io.StringIO(text), sep=separator, quoting=_quoting(separator), **as_text)


def _read_json(text, are_rows):
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        if text.lstrip().startswith("["):
            raise
        found = [_parse(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if isinstance(found, dict) and are_rows:
        found = [found]
    elif isinstance(found, dict):
        tables = [value for value in found.values() if _is_list_of(dict, value)]
        if not tables:
            return Table({name: column.tolist() for name, column in pandas.DataFrame(found, dtype=object).items()})
        found = tables[0] if len(tables) == 1 else None
    if _is_list_of(list, found):
        return from_rows(found)
    if not _is_list_of(dict, found):
        raise ValueError(tr("it is no list of objects, and has no object in each line"))
    return from_records(found)


def _is_list_of(kind, value):
    return isinstance(value, list) and bool(value) and all(isinstance(each, kind) and each for each in value)


def _parse(number, line):
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(tr("line {line}: {error}", line=number, error=error.msg)) from None


def _read_xlsx(path):
    """The first sheet that has rows; another one is a title page."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and the like
        sheets = pandas.read_excel(
            io.BytesIO(path.read_bytes()), None, header=None, dtype=object, keep_default_na=False, na_values=[""],
            engine="openpyxl",
        )  # fmt: skip
    for title, frame in sheets.items():
        frame = frame.dropna(how="all").dropna(how="all", axis=1)
        table = from_rows(frame.values.tolist()) if len(frame) else Table({})
        if len(table):
            others = [each for each in sheets if each != title]
            said = remark(Message("sheet {sheet} is read, and not {others}"), sheet=repr(title), others=others)
            table.remarks[:0] = [said] if others else []
            return table
    return Table({})
