"""A data set for classification: texts and class numbers, without empty rows, in splits."""

from collections import Counter
from dataclasses import dataclass, field

import datasets
from sklearn.model_selection import train_test_split

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.columns import Columns, find_columns
from mindnlp_dp_plugin.recipes.files import SPLIT_WORDS, read_splits

DEV_SHARE = 0.1


@dataclass(frozen=True)
class LabelledTexts:
    """What a model is to learn from.

    Attributes:
        splits: ``train`` and ``dev``, and ``test`` where there is one; columns ``text`` (str), for pairs ``text_pair``
            too, and ``label`` (the class's number).
        label_names: The classes; a class's number is its place here.
        remarks: What was found, dropped and split off, a line each.
    """

    splits: dict[str, datasets.Dataset]
    label_names: list[str]
    remarks: list[str] = field(default_factory=list)


def read_labelled_texts(
    name: str, text_columns: tuple[str, ...] = (), label_column: str | None = None, seed: int = 42
) -> LabelledTexts:
    """Read a data set and make it ready to tokenise.

    Rows whose text or label is empty are counted and left out. Without a dev split, a tenth of the training rows
    becomes one: stratified, the same rows for the same seed.

    Args:
        name: A file, a folder or a name in the hub, see ``read_splits``.
        text_columns: One column, two for pairs of texts, or none: found by name, else by content.
        label_column: The column with the classes, as text or as numbers; None: found.
        seed: Fixes which rows become the dev split.

    Raises:
        DataParallelError: If the data cannot be read or are no task of classification.
    """
    tables = read_splits(name)
    columns = find_columns(tables["train"], tuple(text_columns), label_column)
    remarks = [f"text: {', '.join(columns.texts)}; label: {columns.label}"]
    splits = {split: _plain_rows(table, columns, split) for split, table in tables.items()}
    for split, rows in list(splits.items()):
        kept = [row for row in rows if all(row)]
        if dropped := len(rows) - len(kept):
            remarks.append(f"{split}: {dropped} of {len(rows)} rows are empty and were dropped")
        splits[split] = kept
        if not kept and split != "train":  # test sets are often published without their labels
            del splits[split]
    label_names = _label_names([label for *_, label in splits["train"]], columns.label, tables["train"])
    numbers = {label: number for number, label in enumerate(label_names)}
    numbered = {split: _numbered(rows, numbers, split) for split, rows in splits.items()}
    if "dev" not in numbered:
        numbered["train"], numbered["dev"] = _split_off_dev(numbered["train"], label_names, seed)
        remarks.append(f"no dev split: {len(numbered['dev'])} rows of train became one")
    counts = Counter(numbered["train"]["label"])
    classes = ", ".join(f"{label} ({counts[number]})" for number, label in enumerate(label_names[:20]))
    remarks.append(f"{len(label_names)} classes (rows to train on): {classes}{', ...' * (len(label_names) > 20)}")
    return LabelledTexts({name: numbered[name] for name in SPLIT_WORDS if name in numbered}, label_names, remarks)


def as_text(value) -> str:
    """A cell's content; nothing for missing ones. Whole numbers have no point: 1, not 1.0."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _plain_rows(table, columns: Columns, split) -> list[tuple[str, ...]]:
    missing = [name for name in (*columns.texts, columns.label) if name not in table.column_names]
    if missing:
        raise DataParallelError(
            f"column {missing[0]!r} is not in the {split} split: its columns are {', '.join(table.column_names)}."
        )
    labels = table[columns.label]
    kind = table.features[columns.label]
    if isinstance(kind, datasets.ClassLabel):
        labels = [None if number is None or number < 0 else kind.int2str(number) for number in labels]
    return [tuple(map(as_text, row)) for row in zip(*(table[name] for name in columns.texts), labels)]


def _label_names(labels, column, table) -> list[str]:
    """The classes in the order of their names, of their numbers if they are numbers, or of the data set's own list."""
    distinct = set(labels)
    if not labels:
        raise DataParallelError("the training data have no row with a text and a label: check the columns.")
    if len(distinct) == 1:
        raise DataParallelError(
            f"label column {column!r} holds one class only, {labels[0]!r}: a classifier needs at least two."
        )
    if len(distinct) > max(2, len(labels) // 2):
        raise DataParallelError(
            f"label column {column!r} holds {len(distinct)} different values in {len(labels)} rows, which are no "
            f"classes: choose --label-column among {', '.join(table.column_names)}."
        )
    if isinstance(table.features[column], datasets.ClassLabel):
        return [name for name in table.features[column].names if name in distinct]
    try:
        return sorted(distinct, key=float)
    except ValueError:
        return sorted(distinct)


def _numbered(rows, numbers, split):
    for row in rows:
        if row[-1] not in numbers:
            raise DataParallelError(
                f"label {row[-1]!r} of the {split} split is unseen in training, whose labels are "
                f"{', '.join(list(numbers)[:20])}: mend the label, or add rows with it to the training data."
            )
    *texts, labels = zip(*rows)
    columns = dict(zip(("text", "text_pair"), map(list, texts)))
    return datasets.Dataset.from_dict({**columns, "label": [numbers[label] for label in labels]})


def _split_off_dev(train, label_names, seed):
    counts = Counter(train["label"])
    number, least = min(counts.items(), key=lambda item: item[1])
    if least < 2:
        raise DataParallelError(
            f"class {label_names[number]!r} has one row only, and there is no dev split: add rows of it, or give a "
            "folder with train and dev files."
        )
    size = max(len(label_names), round(DEV_SHARE * len(train)))
    rest, dev = train_test_split(range(len(train)), test_size=size, stratify=train["label"], random_state=seed)
    return train.select(rest), train.select(dev)
