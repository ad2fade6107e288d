"""Classes of texts: which there are, what they are called, and labels that are none."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import datasets

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.files import as_text, is_list, is_number, one_text
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.reviews import generate_reviews
from mindnlp_dp_plugin.recipes.scores import first_of
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, PlainRows, read_rows
from mindnlp_dp_plugin.recipes.words import remark


def read_classes(options: RecipeOptions) -> LabelledTexts:
    """Texts with the number of the class of each, in the order of their names, or of the data set's own list.

    Raises:
        DataParallelError: If the data cannot be read, or are no task of classification.
    """
    found = read_rows(options, _as_class)
    labels, column = found.labels(), found.train[found.columns.label]
    require_classes(labels, found)
    own = list(column.cat.categories) if hasattr(column, "cat") else in_order(set(labels))
    names = [name for name in own if name in set(labels)]
    found.remarks.extend(alike(names))
    return found.labelled({name: number for number, name in enumerate(names)}.__getitem__, names)


def generated() -> LabelledTexts:
    """Film reviews of a small grammar, good or bad."""
    reviews = {"train": generate_reviews(4000, seed=1), "dev": generate_reviews(500, seed=2)}
    splits = {name: datasets.Dataset.from_dict(columns) for name, columns in reviews.items()}
    said = remark("generated film reviews: {train} to train on, {dev} in dev", train=4000, dev=500)
    return LabelledTexts(splits, ["bad", "good"], [said])


def require_classes(labels: list[str], found: PlainRows) -> None:
    """Raise unless labels are classes.

    Args:
        labels: Each, as often as it stands in a row to train on.
        found: Where they are from.

    Raises:
        DataParallelError: If there is only one, or if most come once.
    """
    distinct, column = set(labels), found.columns.label
    if len(distinct) < 2:
        raise DataParallelError(
            "label column {column!r} holds one class only, {label!r}: a classifier needs at least two.",
            column=column,
            label=next(iter(distinct), ""),
        )
    if len(distinct) > max(2, len(labels) // 2):
        raise DataParallelError(
            "label column {column!r} holds {count} different values in {num_rows} rows, which are no classes: train "
            "numbers with `mindnlp-dp recipe regression`, or choose another --label-column among {names}.",
            column=column,
            count=len(distinct),
            num_rows=len(found.train),
            names=", ".join(found.train),
        )


def in_order(names: Iterable[str]) -> list[str]:
    """Classes in the order of their names, of their numbers if they are numbers."""
    return sorted(names, key=float if all(map(is_number, names)) else None)


def alike(label_names: Sequence[str]) -> list[dict]:
    """A remark for labels that only case or blanks tell apart."""
    spellings = defaultdict(list)
    for label in label_names:
        spellings["".join(label.casefold().split())].append(repr(label))
    said = Message("{labels} differ by case or blanks only, and are {count} classes: if they are one, write them alike")
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
            classes=", ".join(first_of(names)),
        )
    own = {name: new for name, _, new in pairs}
    names = [own.get(name, name) for name in names]
    if len(set(names)) < len(names):
        raise DataParallelError("--label-name gives two classes one name: {names}.", names=", ".join(names))
    if positive not in (None, *names):
        raise DataParallelError(
            "--positive-label {positive_label!r} is no class: they are {classes}.",
            positive_label=positive,
            classes=", ".join(first_of(names)),
        )
    return names


def _as_class(cell: Any):
    text = as_text(cell)
    if is_list(cell) or text.startswith(("['", '["')) and text.endswith("]"):
        message = Message(
            "the label {cell!r} is a list: train several labels for each text with `mindnlp-dp recipe multi-label`"
        )
        raise ValueError(tr(message, cell=cell))
    return one_text(cell)
