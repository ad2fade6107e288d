"""Rows of a file before anything is known of them: named columns of whatever values they hold."""

from dataclasses import dataclass, field
from typing import Any

from mindnlp_dp_plugin.language import tr
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
        lines: The line of its file in which each row begins; empty where a file has no lines.
        files: The files that were read, each with its number of rows.
    """

    columns: dict[str, list]
    remarks: list[dict] = field(default_factory=list)
    class_names: dict[str, list[str]] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
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
        """Where a row is from, for messages: its file and line, or its number among the rows."""
        line = self.lines[row] if self.lines else None
        for file, num_rows in self.files:
            if row < num_rows:
                if line is not None:
                    return tr("{file!r}, line {number}", file=file, number=line)
                return tr("{file!r}, row {number}", file=file, number=row + 1)
            row -= num_rows
        return tr("row {number}", number=row + 1)


def from_records(records: list[dict], lines: list[int] = ()) -> Table:
    """A table of objects; what an object lacks is None.

    Args:
        records: The objects.
        lines: The line of each, if each has one.
    """
    names = dict.fromkeys(str(name) for record in records for name in record)
    return Table({name: [record.get(name) for record in records] for name in names}, lines=list(lines))


def from_rows(rows: list[list], numbers: list[int] | None = None) -> Table:
    """A table of rows, the first of which is its header, unless it looks like the others.

    Args:
        rows: At least one, of any values.
        numbers: The line in which each row begins; for messages.

    Raises:
        ValueError: If a row has more values than the header.
    """
    width = len(rows[0])
    for number, row in enumerate(rows):
        if len(row) > width:
            line = numbers[number] if numbers else number + 1
            raise ValueError(
                tr(
                    "line {line} has {count} fields where the first has {width}: quote a text that holds the separator",
                    line=line,
                    count=len(row),
                    width=width,
                )
            )
    short = sum(len(row) < width for row in rows)
    remarks = [remark("short_rows", rows=short, width=width)] if short else []
    columns = [list(column) for column in zip(*(row + [None] * (width - len(row)) for row in rows))]
    if has_header(columns):
        named = {name: column[1:] for name, column in zip(_unique(rows[0]), columns)}
        return Table(named, remarks, lines=list(numbers or [])[1:])
    names = [f"column_{number}" for number in range(1, width + 1)]
    remarks.append(remark("no_header", columns=names))
    return Table(dict(zip(names, columns)), remarks, lines=list(numbers or []))


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


def _unique(header):
    names = []
    for number, cell in enumerate(header, 1):
        name = as_text(cell) or f"column_{number}"
        names.append(name if name not in names else f"{name}_{number}")
    return names
