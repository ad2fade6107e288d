"""Texts with any number of labels each: cells hold a list of them, or a text with something between them."""

import ast
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.classes import alike, in_order, require_classes
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.reading.table import as_text
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, read_rows, unseen
from mindnlp_dp_plugin.recipes.words import remark

SEPARATORS = (";", "|", ",", "；", "、", "，")


SEPARATED = Message("the classes of a cell are separated by {by!r}")


def read_label_sets(options: RecipeOptions) -> LabelledTexts:
    """Texts with a 1 or 0 for each class.

    Raises:
        DataParallelError: If the data cannot be read, or are no task of several labels.
    """
    found = read_rows(options, parse)
    if separator := _find_separator(found, options.label_separator):
        found.remarks.append(remark(SEPARATED, by=separator))
    rows = {
        split: [row._replace(label=names_in(row.label, separator)) for row in rows]
        for split, rows in found.splits.items()
    }
    # Test sets are often published without labels.
    rows = {split: of for split, of in rows.items() if split == "train" or any(row.label for row in of)}
    classes = [name for row in rows["train"] for name in row.label]
    require_classes(classes, found.columns.label, found.tables["train"])
    names = in_order(set(classes))
    found.remarks.extend(alike(names))

    def as_numbers(row, split):
        if unknown := [name for name in row.label if name not in names]:
            raise unseen(unknown[0], found.place(row, split), split, names)
        return marked(row.label, names)

    return replace(found, splits=rows).labelled(as_numbers, names)


def read_known(cell: Any, separator: str | None, names: list[str]) -> list[float] | None:
    """A 1 or 0 for each class; None if the cell holds no classes, or others.

    Args:
        cell: Of a file.
        separator: What stands between classes.
        names: All.
    """
    try:
        found = parse(cell)
    except ValueError:
        return None
    classes = None if found is None else names_in(found, separator)
    return marked(classes, names) if classes is not None and set(classes) <= set(names) else None


def separator_of(data: LabelledTexts) -> str:
    """What stands between classes in the cells of files; where cells hold lists, what is in no name."""
    named = next((each["by"] for each in data.remarks if each["message"] == SEPARATED), None)
    return named or next((each for each in SEPARATORS if not any(each in name for name in data.label_names)), "\t")


def chosen_names(chosen: Iterable[bool], names: list[str]) -> list[str]:
    """The classes for which there is a 1."""
    return [name for name, is_chosen in zip(names, chosen) if is_chosen]


def marked(classes: list[str], names: list[str]) -> list[float]:
    """A 1 or 0 for each of all classes."""
    return [float(name in classes) for name in names]


def parse(cell: Any) -> list[str] | str | None:
    """The labels of a cell: a list of names, or a text with any number of them; None if the cell is missing.

    Raises:
        ValueError: If it holds something else.
    """
    if isinstance(cell, str) and cell.strip().startswith("[") and cell.strip().endswith("]"):
        try:
            cell = json.loads(cell)
        except ValueError:
            try:
                cell = ast.literal_eval(cell.strip())
            except (ValueError, SyntaxError):
                raise ValueError(tr('it is no list; write ["a", "b"], or a;b')) from None
    is_list = isinstance(cell, (list, tuple))
    if isinstance(cell, dict) or is_list and any(isinstance(part, (dict, list)) for part in cell):
        raise ValueError(tr('a label is a text or a number, and a row has a list of them, such as ["a", "b"]'))
    if is_list:
        return [text for text in map(as_text, cell) if text]
    return None if cell is None or cell != cell else as_text(cell) or []


def names_in(label: list[str] | str, separator: str | None) -> list[str]:
    """The classes of a row, each once."""
    parts = label.split(separator) if isinstance(label, str) and separator else label
    parts = [parts] if isinstance(parts, str) else parts
    return list(dict.fromkeys(filter(None, map(str.strip, parts))))


def _find_separator(found, named):
    """What stands between the classes of a cell; None if cells hold lists."""
    labels = [row.label for rows in found.splits.values() for row in rows]
    cells = [label for label in labels if isinstance(label, str)]
    if named is not None and not any(named in cell for cell in cells):
        raise DataParallelError(
            "--label-separator {named!r} is in no cell of label column {column!r} (for example {example!r}): give "
            "another, or leave it out.",
            named=named,
            column=found.columns.label,
            example=labels[0],
        )
    separator = named or _first_in(cells)
    if separator is None and all(isinstance(label, str) or len(label) < 2 for label in labels):
        raise DataParallelError(
            "label column {column!r} holds at most one class in each row (for example {example!r}): train them with "
            "`mindnlp-dp recipe classification`, or name the --label-separator.",
            column=found.columns.label,
            example=labels[0],
        )
    return separator


def _first_in(cells):
    return next((each for each in SEPARATORS if any(each in cell for cell in cells)), None)
