"""Texts with any number of labels each: cells hold a list of them, or a text with something between them."""

import ast
from collections.abc import Iterable
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.classes import alike, in_order, require_classes
from mindnlp_dp_plugin.recipes.files import as_text, is_list
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, read_rows

SEPARATOR = ";"


def read_label_sets(options: RecipeOptions) -> LabelledTexts:
    """Texts with a 1 or 0 for each class.

    Raises:
        DataParallelError: If the data cannot be read, or are no task of several labels.
    """
    found = read_rows(options, parse)
    separator = options.label_separator or SEPARATOR
    _require_several(found, separator)
    for split, rows in list(found.splits.items()):
        for row in rows.values():
            row["label"] = names_in(row["label"], separator)
        if split != "train" and not any(found.labels(split)):  # test sets are often published without labels
            del found.splits[split]
    classes = [name for labels in found.labels() for name in labels]
    require_classes(classes, found)
    names = in_order(set(classes))
    found.remarks.extend(alike(names))
    return found.labelled(lambda labels: marked(labels, names), names)


def chosen_names(chosen: Iterable[bool], names: list[str]) -> list[str]:
    """The classes for which there is a 1."""
    return [name for name, is_chosen in zip(names, chosen) if is_chosen]


def marked(classes: list[str], names: list[str]) -> list[float]:
    """A 1 or 0 for each of all classes; a KeyError names one that is none."""
    if unknown := [name for name in classes if name not in names]:
        raise KeyError(unknown[0])
    return [float(name in classes) for name in names]


def parse(cell: Any) -> list[str] | str | None:
    """The labels of a cell: a list of names, or a text with any number of them; None if the cell is missing.

    Raises:
        ValueError: If it holds something else.
    """
    if isinstance(cell, str) and cell.strip().startswith("[") and cell.strip().endswith("]"):
        try:
            cell = ast.literal_eval(cell.strip())
        except (ValueError, SyntaxError):
            raise ValueError(tr('the label {cell!r} is no list; write ["a", "b"], or a;b', cell=cell)) from None
    if isinstance(cell, dict) or is_list(cell) and any(isinstance(part, dict) or is_list(part) for part in cell):
        message = Message('the label {cell!r} is neither a text nor a list of texts or numbers, such as ["a", "b"]')
        raise ValueError(tr(message, cell=cell))
    if is_list(cell):
        return [text for text in map(as_text, cell) if text]
    return None if cell is None or cell != cell else as_text(cell) or []


def names_in(label: list[str] | str, separator: str) -> list[str]:
    """The classes of a row, each once."""
    parts = label.split(separator) if isinstance(label, str) else label
    return list(dict.fromkeys(filter(None, map(str.strip, parts))))


def _require_several(found, separator):
    """Refuse cells that all hold one class, perhaps as something else separates them."""
    labels = [label for split in found.splits for label in found.labels(split)]
    if all(separator not in label if isinstance(label, str) else len(label) < 2 for label in labels):
        raise DataParallelError(
            "label column {column!r} holds at most one class in each row (for example {example!r}): train them with "
            "`mindnlp-dp recipe classification`, or name the --label-separator, which is {separator!r}.",
            column=found.columns.label,
            example=labels[0],
            separator=separator,
        )
