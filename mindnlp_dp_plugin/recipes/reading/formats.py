"""Read a file of any kind as a table, judged by its contents first, then by its suffix."""

import csv
import io
import json
import sys
import warnings
from pathlib import Path

import datasets
import pyarrow
import pyarrow.parquet

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.reading import lines
from mindnlp_dp_plugin.recipes.reading.columns import LABELS, PAIRS, TEXTS
from mindnlp_dp_plugin.recipes.reading.decoding import decode
from mindnlp_dp_plugin.recipes.reading.table import Table, as_text, from_records, from_rows
from mindnlp_dp_plugin.recipes.words import remark

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".xlsx", ".txt")
SEPARATORS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}  # with their names among the words
KNOWN_NAMES = {*TEXTS, *LABELS, *(name for pair in PAIRS for name in pair)}
NOT_READ = {  # by how they begin
    b"\xd0\xcf\x11\xe0": Message("it is an Excel file of before 2007: save it as .xlsx or csv"),
    b"%PDF": Message("it is a PDF: save its table as csv"),
    b"\x1f\x8b": Message("it is compressed: unpack it with gunzip"),
    b"\x89HDF": Message("it is HDF5: save its table as csv or parquet"),
    b"ARROW1": Message("it is an Arrow file: save its table as parquet"),
}


class BadFile(ValueError):
    """A file that cannot be read; the message says why."""


def read_file(path: Path, encoding: str | None = None, known_labels: list[str] | None = None) -> Table:
    """The rows of one file.

    Args:
        path: The file.
        encoding: Of its text, if the user named one; otherwise found.
        known_labels: If given, the rows may be without labels, and a file without columns may hold a text in each line.

    Raises:
        DataParallelError: If it is empty or cannot be read; the message names the file, and the line where it can.
    """
    try:
        table = _read(path, encoding, known_labels)
    except (ValueError, csv.Error, pyarrow.ArrowException, OSError) as error:
        raise DataParallelError("{path!r} cannot be read: {error}.", path=str(path), error=_first_line(error)) from None
    if len(table) == 0:
        raise DataParallelError(
            "{path!r} has no rows: give a file with a text and a label in each row.", path=str(path)
        )
    table.files = [(path.name, len(table))]
    return table


def _read(path, encoding, known_labels):
    with path.open("rb") as file:
        beginning = file.read(8)
    for mark, kind in NOT_READ.items():
        if beginning.startswith(mark):
            raise BadFile(tr(kind))
    if beginning.startswith(b"PAR1") or path.suffix.lower() == ".parquet":
        return _read_parquet(path)
    if beginning.startswith(b"PK\x03\x04") or path.suffix.lower() == ".xlsx":
        return _read_xlsx(path)
    text, remarks = decode(path, encoding)
    text = text.removeprefix("\ufeff")
    table = _read_text(text, path.suffix.lower(), known_labels) if text.strip() else Table({})
    table.remarks[:0] = remarks
    return table


def _read_text(text, suffix, known_labels):
    if suffix in (".json", ".jsonl"):
        return _read_json(text, is_lines=suffix == ".jsonl")
    if text.lstrip().startswith(("{", "[{")):
        try:
            return _read_json(text, is_lines=False)
        except BadFile:
            pass
    if lines.looks_like_conll(text):
        raise BadFile(
            tr(
                "it looks like CoNLL, a token and its tag in each line: train it with `mindnlp-dp recipe "
                "token-classification`"
            )
        )
    separator = "\t" if suffix == ".tsv" else find_separator(text)
    has_names = separator and _names_columns(text, separator)
    if suffix in (".csv", ".tsv") and separator or has_names or separator == "\t":
        return _read_separated(text, separator, is_usual=(suffix, separator) in ((".csv", ","), (".tsv", "\t")))
    if known_labels is not None and not lines.are_labelled(text, known_labels):
        if suffix == ".csv":
            return _read_separated(text, ",", is_usual=True)  # its one column may be quoted
        return Table({"text": lines.split(text)})
    return lines.read_labelled(text)


def find_separator(text: str) -> str | None:
    """What separates the columns of a csv: that which gives the first hundred rows equally many, more than one."""
    best, most = None, 0.0
    for separator in SEPARATORS:
        widths = []
        try:
            for row in _rows(text, separator):
                widths += [len(row)] * bool(row)
                if len(widths) == 100:
                    break
        except csv.Error:
            pass
        if not widths or (width := widths[0]) < 2:
            continue
        # Between equals: the one with a header that we know, else commas first.
        agreeing = sum(each == width for each in widths) / len(widths) + _names_columns(text, separator)
        if agreeing > most:
            best, most = separator, agreeing
    return best


def _names_columns(text, separator):
    first = text.split("\n", 1)[0]
    return bool({cell.strip(' "\r').lower() for cell in first.split(separator)} & KNOWN_NAMES) and separator in first


def _rows(text, separator):
    csv.field_size_limit(sys.maxsize)
    # In tab-separated files quotes are text.
    quoting = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, quoting=quoting, strict=True)


def _read_separated(text, separator, is_usual):
    reader, rows, numbers, began = _rows(text, separator), [], [], 1
    try:
        for row in reader:
            if row:
                rows.append(row)
                numbers.append(began)
            began = reader.line_num + 1
    except csv.Error as error:
        raise BadFile(
            tr("line {line}: {error}; a quote inside a quoted text is written twice", line=began, error=error)
        ) from None
    table = from_rows(rows, numbers)
    if not is_usual:
        table.remarks.insert(0, remark("separated", separator=SEPARATORS[separator]))
    return table


def _read_json(text, is_lines):
    try:
        found = json.loads(text)
        if isinstance(found, dict) and not _looks_like_table(found, is_lines):
            return _from_json([found], [text[: text.index("{")].count("\n") + 1])
    except json.JSONDecodeError as error:
        if text.lstrip().startswith("["):
            raise BadFile(tr("line {line}: {error}", line=error.lineno, error=error.msg)) from None
        numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
        return _from_json([_parse_line(*each) for each in numbered], [number for number, _ in numbered])
    return _from_json(found)


def _parse_line(number, line):
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise BadFile(tr("line {line}: {error}", line=number, error=error.msg)) from None


def _looks_like_table(found, is_lines):
    """Whether it holds columns, or a list of objects, and is no row that has lists in it."""
    are_columns = all(isinstance(value, (list, dict)) for value in found.values())
    return not is_lines and (are_columns or any(map(_is_records, found.values())))


def _from_json(found, lines=()):
    if isinstance(found, dict):
        lists = [name for name, value in found.items() if _is_records(value)]
        if len(lists) > 1:
            raise BadFile(
                tr("it holds several tables ({tables}): give each a file of its own", tables=", ".join(lists))
            )
        if lists:
            return from_records(found[lists[0]])
        columns = {str(name): list(_values(column)) for name, column in found.items()}
        if len({len(column) for column in columns.values()}) != 1:
            raise BadFile(tr("it is no list of objects; give one, or one object a line"))
        return Table(columns)
    if isinstance(found, list) and found and all(isinstance(row, list) and row for row in found):
        return from_rows(found)
    if not _is_records(found):
        raise BadFile(tr("it holds other things than objects; give a list of objects, or one object a line"))
    return from_records(found, lines)


def _is_records(value):
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def _values(column):
    return column.values() if isinstance(column, dict) else column if isinstance(column, list) else []


def _read_parquet(path):
    table = datasets.Dataset(pyarrow.parquet.read_table(path))
    return from_dataset(table)


def from_dataset(rows: datasets.Dataset) -> Table:
    """A Hugging Face data set as a table."""
    kinds = {name: getattr(kind, "feature", kind) for name, kind in rows.features.items()}
    named = {name: list(kind.names) for name, kind in kinds.items() if isinstance(kind, datasets.ClassLabel)}
    return Table(rows.to_dict(), [], named)


def _read_xlsx(path):
    try:
        import openpyxl
    except ImportError:
        raise BadFile(tr("it takes openpyxl to read: pip install openpyxl, or save it as csv")) from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and the like
            book = openpyxl.load_workbook(io.BytesIO(path.read_bytes()), read_only=True, data_only=True)
        sheets = {sheet.title: list(map(list, sheet.iter_rows(values_only=True))) for sheet in book.worksheets}
    except Exception as error:  # of zip, zlib, XML and openpyxl itself
        raise BadFile(tr("it is no workbook: {error}", error=_first_line(error))) from None
    for title, cells in sheets.items():
        numbered = [(number, row) for number, row in enumerate(cells, 1) if any(map(as_text, row))]
        if not numbered:
            continue
        numbers, rows = zip(*numbered)
        width = max(number for row in rows for number, cell in enumerate(row, 1) if as_text(cell))
        table = from_rows([row[:width] for row in rows], numbers)
        if len(sheets) > 1:
            others = [each for each in sheets if each != title]
            table.remarks.insert(0, remark("sheet_read", sheet=repr(title), others=others))
        if len(table):  # else a title page
            return table
    return Table({})


def _first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
