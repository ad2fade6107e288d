"""Classes of texts: which there are, what they are called, and labels that are none."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import datasets

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.reading.table import Table, is_number
from mindnlp_dp_plugin.recipes.reviews import generate_reviews
from mindnlp_dp_plugin.recipes.scores import MOST_LISTED
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, read_rows, unseen
from mindnlp_dp_plugin.recipes.words import remark


def read_classes(options: RecipeOptions) -> LabelledTexts:
    """Texts with the number of the class of each.

    Raises:
        DataParallelError: If the data cannot be read, or are no task of classification.
    """
    found = read_rows(options)
    names = _class_names(found)
    numbers = {label: number for number, label in enumerate(names)}

    def number_of(row, split):
        if row.label not in numbers:
            raise unseen(row.label, found.place(row, split), split, numbers)
        return numbers[row.label]

    found.remarks.extend(alike(names))
    return found.labelled(number_of, names)


def generated() -> LabelledTexts:
    """Film reviews of a small grammar, good or bad."""
    reviews = {"train": generate_reviews(4000, seed=1), "dev": generate_reviews(500, seed=2)}
    splits = {name: datasets.Dataset.from_dict(columns) for name, columns in reviews.items()}
    said = Message("generated film reviews: {train} to train on, {dev} in dev")
    return LabelledTexts(splits, ["bad", "good"], [remark(said, train=4000, dev=500)])


def _class_names(found):
    """The classes in the order of their names, of their numbers if they are numbers, or of the data set's own list."""
    column, table = found.columns.label, found.tables["train"]
    labels = [row.label for row in found.splits["train"]]
    distinct = set(labels)
    if many := [value for value in table.columns[column] if _is_list(value)]:
        raise DataParallelError(
            "label column {column!r} holds lists (for example {example}): train several labels for each text with "
            "`mindnlp-dp recipe multi-label`.",
            column=column,
            example=many[0],
        )
    require_classes(labels, column, table)
    if names := table.class_names.get(column):
        return [name for name in names if name in distinct]
    return in_order(distinct)


def require_classes(labels: list[str], column: str, table: Table) -> None:
    """Raise unless labels are classes.

    Args:
        labels: Each, as often as it stands in a row.
        column: Where they are.
        table: Of the rows.

    Raises:
        DataParallelError: If there is only one, or if most come once.
    """
    distinct = set(labels)
    if len(distinct) < 2:
        raise DataParallelError(
            "label column {column!r} holds one class only, {label!r}: a classifier needs at least two.",
            column=column,
            label=next(iter(distinct), ""),
        )
    if len(distinct) > max(2, len(labels) // 2):
        is_scale = all(map(is_number, distinct)) and any("." in label for label in distinct)
        raise DataParallelError(
            "label column {column!r} holds {count} different values in {num_rows} rows, which are numbers on a scale: "
            "train them with `mindnlp-dp recipe regression`, or choose another --label-column among {names}."
            if is_scale
            else "label column {column!r} holds {count} different values in {num_rows} rows, which are no classes: "
            "choose another --label-column among {names}.",
            column=column,
            count=len(distinct),
            num_rows=len(table),
            names=", ".join(table.names),
        )


def in_order(names: Iterable[str]) -> list[str]:
    """Classes in the order of their names, of their numbers if they are numbers."""
    return sorted(names, key=float if all(map(is_number, names)) else None)


def _is_list(value):
    return isinstance(value, (list, tuple)) or (
        isinstance(value, str) and value.lstrip().startswith(("['", '["')) and value.rstrip().endswith("]")
    )


def alike(label_names: Sequence[str]) -> list[dict]:
    """A remark for labels that only case or blanks tell apart."""
    spellings = defaultdict(list)
    for label in label_names:
        spellings["".join(label.casefold().split())].append(repr(label))
    said = Message("{labels} differ by case or blanks only, and are {count} classes: write alike what means the same")
    return [remark(said, labels=labels, count=len(labels)) for labels in spellings.values() if len(labels) > 1]


def renamed(names: list[str], options: RecipeOptions) -> list[str]:
    """The classes, those that ``--label-name`` names by that.

    Raises:
        DataParallelError: If it names what is no class, or ``--positive-label`` does.
    """
    pairs, positive = [pair.partition("=") for pair in options.label_name], options.positive_label
    if unknown := ["".join(pair) for pair in pairs if not pair[1] or pair[0] not in names]:
        raise DataParallelError(
            "--label-name {pair!r} names no class: give one such as {example}, of the classes {classes}.",
            pair=unknown[0],
            example=f"{names[0]}=...",
            classes=", ".join(names[:MOST_LISTED]),
        )
    own = {name: new for name, _, new in pairs}
    names = [own.get(name, name) for name in names]
    if len(set(names)) < len(names):
        raise DataParallelError("--label-name gives two classes one name: {names}.", names=", ".join(names))
    if positive is not None and len(names) != 2:
        raise DataParallelError(
            "--positive-label {positive_label!r} names one of two classes, and the data have {num_classes}: leave it "
            "out; the macro F1 is reported.",
            positive_label=positive,
            num_classes=len(names),
        )
    if positive not in (None, *names):
        raise DataParallelError(
            "--positive-label {positive_label!r} is no class: they are {classes}.",
            positive_label=positive,
            classes=", ".join(names),
        )
    return names
