"""A data set: texts and labels, without empty rows, in splits."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import datasets

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.reading.columns import Columns, find_columns
from mindnlp_dp_plugin.recipes.reading.splits import SPLIT_WORDS, read_splits
from mindnlp_dp_plugin.recipes.reading.table import Table, as_text, could_be_label, is_number
from mindnlp_dp_plugin.recipes.reviews import generate_reviews
from mindnlp_dp_plugin.recipes.splitting import split_off_dev
from mindnlp_dp_plugin.recipes.words import remark

MOST_SHOWN = 20


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
                remarks.append(remark("dev_split_off", rows=len(splits["dev"])))
            if singles and names:
                remarks.append(remark("single_texts", labels=_first([names[number] for number in singles])))
        if options.folds:
            splits["train"] = datasets.concatenate_datasets([splits["train"], splits.pop("dev")])
        return replace(self, splits={name: splits[name] for name in SPLIT_WORDS if name in splits}, remarks=remarks)


def read_texts(options: RecipeOptions) -> LabelledTexts:
    """Read the data set that the options name, or generate film reviews; each row has one class.

    Rows whose text or label is empty are counted and left out. Without a dev split, a tenth of the training rows
    becomes one: stratified, the same rows for the same seed, and rows of the same text on the same side.

    Raises:
        DataParallelError: If the data cannot be read or are no task of classification.
    """
    if options.dataset is None:
        splits = {"train": generate_reviews(4000, seed=1), "dev": generate_reviews(500, seed=2)}
        data = LabelledTexts(
            {name: datasets.Dataset.from_dict(columns) for name, columns in splits.items()},
            ["bad", "good"],
            [remark("generated_reviews", train=4000, dev=500)],
        )
    else:
        found = read_rows(options)
        labels = [label for *_, label in found.splits["train"]]
        names = _label_names(labels, found.columns.label, found.tables["train"])
        numbers = {label: number for number, label in enumerate(names)}
        splits = {split: _numbered(found, numbers, split) for split in found.splits}
        data = LabelledTexts(splits, names, [*found.remarks, *alike(names)], found.columns)
    return data.with_dev(lambda rows: rows["label"], options, data.label_names)


@dataclass(frozen=True)
class PlainRows:
    """Rows of texts and labels as they are in the files, without empty ones.

    Attributes:
        splits: For each split its rows: the texts, as text, and the label in a tuple.
        tables: Each split as it was read.
        columns: Where texts and labels were found.
        remarks: What was found and dropped.
        numbers: For each split the number that each of its rows has in its table.
    """

    splits: dict[str, list[tuple]]
    tables: dict[str, Table]
    columns: Columns
    remarks: list[dict]
    numbers: dict[str, list[int]]

    def place(self, split: str, row: int) -> str:
        """Where a row is from, for messages."""
        return self.tables[split].place(self.numbers[split][row])


def read_rows(
    options: RecipeOptions, is_label: Callable[[list], bool] = could_be_label, as_label: Callable = as_text
) -> PlainRows:
    """Read a data set, find its columns, and leave out rows whose text or label is missing.

    Args:
        options: Name the data set (see ``read_splits``), and perhaps its columns and encoding.
        is_label: Whether a column of such values could be the label.
        as_label: A cell's label; None or an empty text if there is none. Raises ValueError if it can be none.

    Raises:
        DataParallelError: If the data cannot be read.
    """
    tables = read_splits(options)
    columns = find_columns(tables["train"], options.text_column, options.label_column, is_label)
    said = [each for table in tables.values() for each in table.remarks]
    remarks = [each for place, each in enumerate(said) if each not in said[:place]]
    remarks.append(remark("columns_found", texts=list(columns.texts), label=columns.label))
    splits, numbers = {}, {}
    for split, table in tables.items():
        rows = _plain_rows(table, columns, split, as_label)
        kept = [number for number, row in enumerate(rows) if all(row[:-1]) and row[-1] not in (None, "")]
        if dropped := len(rows) - len(kept):
            remarks.append(remark("empty_rows", split=split, dropped=dropped, rows=len(rows)))
        if kept or split == "train":  # test sets are often published without their labels
            splits[split], numbers[split] = [rows[number] for number in kept], kept
    if not splits["train"]:
        raise DataParallelError("the training data have no row with a text and a label: check the columns.")
    return PlainRows(splits, tables, columns, remarks, numbers)


def to_dataset(rows: list[tuple], labels: list) -> datasets.Dataset:
    """Rows of texts and a label, with ``labels`` in place of the latter."""
    *texts, _ = zip(*rows)
    return datasets.Dataset.from_dict({**dict(zip(("text", "text_pair"), map(list, texts))), "label": labels})


def _plain_rows(table, columns, split, as_label):
    """Each row's texts and its label in a tuple."""
    missing = [name for name in (*columns.texts, columns.label) if name not in table.columns]
    if missing:
        raise DataParallelError(
            "column {column!r} is not in the {split} split: its columns are {names}.",
            column=missing[0],
            split=split,
            names=", ".join(table.names),
        )
    labels = []
    for row, value in enumerate(table.values(columns.label)):
        try:
            labels.append(as_label(value))
        except ValueError as error:
            raise DataParallelError(
                "{place}: label column {column!r} holds {value!r}: {error}.",
                place=table.place(row),
                column=columns.label,
                value=value,
                error=error,
            ) from None
    texts = [map(as_text, table.columns[name]) for name in columns.texts]
    return list(zip(*texts, labels))


def _label_names(labels, column, table: Table) -> list[str]:
    """The classes in the order of their names, of their numbers if they are numbers, or of the data set's own list."""
    distinct = set(labels)
    if many := [value for value in table.columns[column] if _is_list(value)]:
        raise DataParallelError(
            "label column {column!r} holds lists (for example {example}): train several labels for each text with "
            "`mindnlp-dp recipe multi-label`.",
            column=column,
            example=many[0],
        )
    if len(distinct) == 1:
        raise DataParallelError(
            "label column {column!r} holds one class only, {label!r}: a classifier needs at least two.",
            column=column,
            label=labels[0],
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
            num_rows=len(labels),
            names=", ".join(table.names),
        )
    if names := table.class_names.get(column):
        return [name for name in names if name in distinct]
    return in_order(distinct)


def in_order(names: Iterable[str]) -> list[str]:
    """Classes in the order of their names, of their numbers if they are numbers."""
    return sorted(names, key=float if all(map(is_number, names)) else None)


def _is_list(value):
    return isinstance(value, (list, tuple)) or (
        isinstance(value, str) and value.lstrip().startswith(("['", '["')) and value.rstrip().endswith("]")
    )


def alike(label_names) -> list[dict]:
    """A remark for labels that only case or blanks tell apart."""
    spellings = defaultdict(list)
    for label in label_names:
        spellings["".join(label.casefold().split())].append(label)
    return [
        remark("labels_alike", labels=list(map(repr, labels)), count=len(labels))
        for labels in spellings.values()
        if len(labels) > 1
    ]


def _numbered(found, numbers, split):
    rows = found.splits[split]
    for row, (*_, label) in enumerate(rows):
        if label not in numbers:
            raise unseen(label, found.place(split, row), split, numbers)
    return to_dataset(rows, [numbers[label] for *_, label in rows])


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
    return [*list(names)[:MOST_SHOWN], *(["..."] if len(names) > MOST_SHOWN else [])]
