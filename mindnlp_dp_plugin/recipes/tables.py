"""A data set: texts and labels, without empty rows, in splits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import datasets
import pandas

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.columns import LABELS, TEXTS, Columns, find_columns, require_named
from mindnlp_dp_plugin.recipes.files import as_text, is_number, one_text, place
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.scores import first_of
from mindnlp_dp_plugin.recipes.splits import read_splits
from mindnlp_dp_plugin.recipes.words import remark


class LabelledTexts(NamedTuple):
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
    remarks: list[dict]
    columns: Columns | None = None


@dataclass(frozen=True)
class PlainRows:
    """Rows of texts and labels as they are in the files, without empty ones.

    Attributes:
        splits: The rows of each split by their places; ``text``, perhaps ``text_pair``, ``label``, or what else the
            task reads.
        train: The table to train on, as it was read.
        columns: Where texts and labels were found.
        remarks: What was found and dropped.
    """

    splits: dict[str, dict[tuple, dict]]
    train: pandas.DataFrame
    columns: Columns
    remarks: list[dict]

    def labels(self, split: str = "train") -> list:
        """Those of a split, in order."""
        return [row["label"] for row in self.splits[split].values()]

    def labelled(self, number: Callable[[Any], Any] = lambda label: label, names: Sequence[str] = ()) -> LabelledTexts:
        """The rows as data sets.

        Args:
            number: From a label to the one to learn; a KeyError names what train does not know.
            names: Of the classes, if labels are such.

        Raises:
            DataParallelError: For a label that is not known.
        """
        splits = {}
        for split, rows in self.splits.items():
            learnt = []
            for where, row in rows.items():
                try:
                    learnt.append({**row, "label": number(row["label"])})
                except KeyError as unseen:
                    raise DataParallelError(
                        "{place}: label {label!r} of the {split} split is unseen in training, whose labels are "
                        "{known}: correct the label, or add rows with it to the training data.",
                        place=place(where),
                        label=unseen.args[0],
                        split=split,
                        known=", ".join(first_of(names)),
                    ) from None
            splits[split] = datasets.Dataset.from_list(learnt)
        return LabelledTexts(splits, list(names), self.remarks, self.columns)


def read_rows(
    options: RecipeOptions,
    as_label: Callable[[Any], Any] = as_text,
    parse: Callable[..., dict | None] | None = None,
    names: tuple[Sequence[str], Sequence[str]] = (TEXTS, LABELS),
    tagged: bool = False,
) -> PlainRows:
    """Read a data set, find its columns, and leave out rows in which something is missing.

    Args:
        options: Name the data set (see ``read_splits``), and perhaps its columns and encoding.
        as_label: A cell's label; None or an empty text if there is none. Raises ValueError if it can be none.
        parse: From the cells of a row to what is read of it, None if something is missing; unless rows are texts.
        names: What the columns of texts and labels are called.
        tagged: Whether texts are CoNLL.

    Raises:
        DataParallelError: If the data cannot be read, or train has no row that is whole.
    """
    said, splits = [], {}
    tables = read_splits(options, said, tagged)
    columns = find_columns(tables["train"], options.text_column, options.label_column, names)
    if parse is None:
        _require_text(tables["train"][list(columns.texts)])
    said.append(columns_found(columns))
    for split, table in tables.items():
        if split == "test" and columns.label is not None and columns.label not in table:
            said.append(remark("test has no column {label}, so nothing is scored on it", label=columns.label))
            continue
        require_named(table, *columns)
        rows = _parsed(table, columns, parse or (lambda *cells: _labelled_text(cells, as_label)))
        if len(rows) < len(table):
            message = Message("{split}: empty rows dropped: {dropped} of {rows}")
            said.append(remark(message, split=split, dropped=len(table) - len(rows), rows=len(table)))
        if rows:  # test sets are often published without their labels
            splits[split] = rows
    if "train" not in splits:
        raise DataParallelError("the training data have no row with a text and a label: check the columns.")
    return PlainRows(splits, tables["train"], columns, said)


def columns_found(columns: Columns) -> dict:
    """What is said of them."""
    if columns.label is None:
        return remark("text: {texts}", texts=list(columns.texts))
    return remark("text: {texts}; label: {label}", texts=list(columns.texts), label=columns.label)


def _require_text(table):
    """Refuse columns that hold numbers or anything else."""
    for name in table:
        if not any(isinstance(value, str) and as_text(value) and not is_number(value) for value in table[name]):
            raise DataParallelError(
                "column {name!r} holds no text (for example {example!r}): give another --text-column.",
                name=name,
                example=next((value for value in table[name] if value not in (None, "")), None),
            )


def _parsed(table, columns, parse):
    names, rows = [name for name in (*columns.texts, columns.label) if name is not None], {}
    for where, *cells in table[names].itertuples(name=None):
        try:
            row = parse(*cells)
        except ValueError as error:
            raise DataParallelError("{place}: {error}.", place=place(where), error=error) from None
        if row is not None:
            rows[where] = row
    return rows


def _labelled_text(cells, as_label):
    *texts, label = cells
    row = {**dict(zip(("text", "text_pair"), map(one_text, texts))), "label": as_label(label)}
    return None if any(value in (None, "") for value in row.values()) else row
