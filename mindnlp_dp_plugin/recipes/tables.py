"""A data set: texts and labels, without empty rows, in splits."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import datasets

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.reading.columns import Columns, find_columns
from mindnlp_dp_plugin.recipes.reading.splits import SPLIT_WORDS, read_splits
from mindnlp_dp_plugin.recipes.reading.table import Table, as_text
from mindnlp_dp_plugin.recipes.splitting import split_off_dev
from mindnlp_dp_plugin.recipes.words import remark

MOST_SHOWN = 20
COLUMNS_FOUND = Message("text: {texts}; label: {label}")
TEXT_COLUMNS_FOUND = Message("text: {texts}")


@dataclass(frozen=True)
class LabelledTexts:
    """Texts with labels.

    Attributes:
        splits: ``train`` and ``dev``, and ``test`` where there is one; columns ``text`` (str), for pairs ``text_pair``
            too, and ``label`` (a number, or that of a class).
        label_names: The classes, if the labels are such; a class's number is its place here.
        remarks: What was found, dropped and split off.
        columns: Where the texts and labels were found; None if they were generated.
    """

    splits: dict[str, datasets.Dataset]
    label_names: list[str]
    remarks: list[dict] = field(default_factory=list)
    columns: Columns | None = None

    def with_dev(self, strata: Callable, options: RecipeOptions, names: Sequence[str] = ()) -> "LabelledTexts":
        """These texts with a dev split: a tenth of train, if there is none. With ``--folds`` it is the end of train.

        Args:
            strata: From the rows of train to a number for each; dev gets equally much of each.
            options: Say whether there are folds, and the seed.
            names: Of the strata, where it is worth a remark that one has a single text.
        """
        splits, remarks = dict(self.splits), list(self.remarks)
        if "dev" not in splits:
            train = splits["train"]
            splits["train"], splits["dev"], singles = split_off_dev(train, strata(train), options.seed)
            if not options.folds:
                said = Message("no dev split: {rows} rows of train became dev")
                remarks.append(remark(said, rows=len(splits["dev"])))
            if singles and names:
                said = Message("classes with one text only stay in train, and cannot be scored: {labels}")
                remarks.append(remark(said, labels=_first([names[number] for number in singles])))
        if options.folds:
            splits["train"] = datasets.concatenate_datasets([splits["train"], splits.pop("dev")])
        return replace(self, splits={name: splits[name] for name in SPLIT_WORDS if name in splits}, remarks=remarks)


class Row(NamedTuple):
    """A row: its texts, its label, and its number in its table."""

    texts: tuple[str, ...]
    label: Any
    number: int


@dataclass(frozen=True)
class PlainRows:
    """Rows of texts and labels as they are in the files, without empty ones.

    Attributes:
        splits: The rows of each split.
        tables: Each split as it was read.
        columns: Where texts and labels were found.
        remarks: What was found and dropped.
    """

    splits: dict[str, list[Row]]
    tables: dict[str, Table]
    columns: Columns
    remarks: list[dict]

    def labelled(self, as_label: Callable[[Row, str], Any], names: Sequence[str] = ()) -> LabelledTexts:
        """The rows as data sets.

        Args:
            as_label: From a row and its split to the label to learn.
            names: Of the classes, if labels are such.
        """
        splits = {}
        for split, rows in self.splits.items():
            texts = zip(("text", "text_pair"), map(list, zip(*(row.texts for row in rows))))
            splits[split] = datasets.Dataset.from_dict({**dict(texts), "label": [as_label(row, split) for row in rows]})
        return LabelledTexts(splits, list(names), self.remarks, self.columns)

    def place(self, row: Row, split: str) -> str:
        """Where a row is from, for messages."""
        return self.tables[split].place(row.number)


def read_rows(options: RecipeOptions, as_label: Callable = as_text) -> PlainRows:
    """Read a data set, find its columns, and leave out rows whose text or label is missing.

    Args:
        options: Name the data set (see ``read_splits``), and perhaps its columns and encoding.
        as_label: A cell's label; None or an empty text if there is none. Raises ValueError if it can be none.

    Raises:
        DataParallelError: If the data cannot be read.
    """
    tables = read_splits(options)
    columns = find_columns(tables["train"], options.text_column, options.label_column)
    splits, remarks = filled(tables, lambda table, split: _plain_rows(table, columns, split, as_label))
    said = remark(COLUMNS_FOUND, texts=list(columns.texts), label=columns.label)
    return PlainRows(splits, tables, columns, [*said_of(tables), said, *remarks])


def filled(tables: dict[str, Table], rows_of: Callable[[Table, str], list]) -> tuple[dict[str, list], list[dict]]:
    """The rows of each split that have all that is needed, and remarks of how many have not.

    Args:
        tables: As they were read.
        rows_of: From a table and its split to such rows.

    Raises:
        DataParallelError: If train has none.
    """
    splits, remarks = {}, []
    for split, table in tables.items():
        rows = rows_of(table, split)
        if dropped := len(table) - len(rows):
            said = Message("{split}: empty rows dropped: {dropped} of {rows}")
            remarks.append(remark(said, split=split, dropped=dropped, rows=len(table)))
        if rows or split == "train":  # test sets are often published without their labels
            splits[split] = rows
    if not splits["train"]:
        raise DataParallelError("the training data have no row with a text and a label: check the columns.")
    return splits, remarks


def said_of(tables: dict[str, Table]) -> list[dict]:
    """The remarks of all tables, each once."""
    said = [each for table in tables.values() for each in table.remarks]
    return [each for place, each in enumerate(said) if each not in said[:place]]


def require_column(table: Table, column: str, split: str) -> None:
    """Raise a DataParallelError unless a split has a column."""
    if column not in table.columns:
        raise DataParallelError(
            "column {column!r} is not in the {split} split: its columns are {names}.",
            column=column,
            split=split,
            names=", ".join(table.names),
        )


def _plain_rows(table, columns, split, as_label):
    for name in (*columns.texts, columns.label):
        require_column(table, name, split)
    rows = []
    texts = zip(*(map(as_text, table.columns[name]) for name in columns.texts))
    for number, (texts_of_row, value) in enumerate(zip(texts, table.values(columns.label))):
        try:
            row = Row(texts_of_row, as_label(value), number)
            rows += [row] if all(row.texts) and row.label not in (None, "") else []
        except ValueError as error:
            raise DataParallelError(
                "{place}: label column {column!r} holds {value!r}: {error}.",
                place=table.place(number),
                column=columns.label,
                value=value,
                error=error,
            ) from None
    return rows


def unseen(label: str, place: str, split: str, known: Iterable[str]) -> DataParallelError:
    """The error of a label that training does not know."""
    return DataParallelError(
        "{place}: label {label!r} of the {split} split is unseen in training, whose labels are {known}: correct the "
        "label, or add rows with it to the training data.",
        place=place,
        label=label,
        split=split,
        known=", ".join(_first(known)),
    )


def _first(names):
    names = list(names)
    return [*names[:MOST_SHOWN], *(["..."] if len(names) > MOST_SHOWN else [])]
