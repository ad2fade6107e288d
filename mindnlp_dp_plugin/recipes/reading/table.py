"""Rows of a file before anything is known of them: named columns of whatever values they hold."""

from dataclasses import dataclass, field
from typing import Any

from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.words import remark

MOST_LABEL_CHARACTERS = 60
SURROGATES = {code: "\ufffd" for code in range(0xD800, 0xE000)}


@dataclass
class Table:
    """A table.

    Attributes:
        columns: Values by column, all equally many.
        remarks: What was assumed in order to read it.
        class_names: For columns that hold class numbers, or lists of them: the names of all classes.
        files: The files that were read, each with its number of rows.
    """

    columns: dict[str, list]
    remarks: list[dict] = field(default_factory=list)
    class_names: dict[str, list[str]] = field(default_factory=dict)
    files: list[tuple[str, int]] = field(default_factory=list)

    def __len__(self):
        return len(next(iter(self.columns.values()), []))

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.columns)

    def values(self, name: str) -> list:
        """A column, with the names of classes in place of their numbers; None for a class that is not known."""
        values, classes = self.columns[name], self.class_names.get(name)
        return values if classes is None else [_named(value, classes) for value in values]

    def place(self, row: int) -> str:
        """Where a row is from, for messages: its file, and its number among the rows."""
        for file, num_rows in self.files:
            if row < num_rows:
                return tr("{file!r}, row {number}", file=file, number=row + 1)
            row -= num_rows
        return tr("row {number}", number=row + 1)


def from_records(records: list[dict]) -> Table:
    """A table of objects; what an object lacks is None."""
    names = dict.fromkeys(str(name) for record in records for name in record)
    return Table({name: [record.get(name) for record in records] for name in names})


def from_rows(rows: list[list]) -> Table:
    """A table of rows that are equally long, the first of which is its header, unless it looks like the others."""
    columns = list(map(list, zip(*rows)))
    if has_header(columns):
        names = [as_text(name) or f"column_{number}" for number, name in enumerate(rows[0], 1)]
        names = [name if name not in names[:at] else f"{name}_{at + 1}" for at, name in enumerate(names)]
        return Table({name: column[1:] for name, column in zip(names, columns)})
    names = [f"column_{number}" for number in range(1, len(columns) + 1)]
    assumed = Message("no header: the first line is taken as data, and the columns are called {columns}")
    return Table(dict(zip(names, columns)), [remark(assumed, columns=names)])


def has_header(columns: list[list]) -> bool:
    """Whether the first value of each column names it: none is a class of its column, or a number among numbers."""
    return not any(
        len(column) > 1
        and (as_text(column[0]) in set(map(as_text, column[1:])) and could_be_label(column[1:]))
        or (is_number(as_text(column[0])) and all(is_number(text) for text in map(as_text, column[1:]) if text))
        for column in columns
    )


def could_be_label(values: list) -> bool:
    """Whether it is a few short values that come again: on average ten times each, or only two of them."""
    distinct = {as_text(value) for value in values} - {""}
    if not 2 <= len(distinct) <= max(2, len(values) // 10):
        return False
    return len(distinct) < len(values) and max(map(len, distinct)) <= MOST_LABEL_CHARACTERS


def as_text(value: Any) -> str:
    """A cell's content, without blanks around it; nothing for missing ones. Whole numbers have no point: 1, not 1.0."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip().translate(SURROGATES)


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _named(value, classes):
    if isinstance(value, list):
        return [_named(each, classes) for each in value]
    return None if value is None or value < 0 else classes[value]
