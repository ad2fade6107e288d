"""Parts of a data set: stratified, the same for the same seed, and rows of the same text on the same side."""

import warnings
from collections import Counter

import datasets
from sklearn.model_selection import StratifiedKFold, train_test_split

from mindnlp_dp_plugin.errors import DataParallelError

DEV_SHARE = 0.1


def text_columns(rows: datasets.Dataset) -> list[str]:
    """The columns with the text of each row, or the two of a pair."""
    return [name for name in ("text", "text_pair") if name in rows.column_names]


def texts_of(rows: datasets.Dataset) -> list[tuple[str, ...]]:
    """The text of each row, or the two of a pair."""
    return list(zip(*(rows[name] for name in text_columns(rows))))


def split_off_dev(
    train: datasets.Dataset, strata: list[int], seed: int
) -> tuple[datasets.Dataset, datasets.Dataset, list[int]]:
    """Train, dev (a tenth), and the numbers of the classes that have one text only, which stay in train.

    Args:
        train: The rows.
        strata: The class of each.
        seed: Fixes the rows of dev.

    Raises:
        DataParallelError: If no class has two texts.
    """
    texts, first_label = _distinct(train, strata)
    counts = Counter(first_label.values())
    singles = [number for number in sorted(counts) if counts[number] == 1]
    candidates = [text for text, label in first_label.items() if counts[label] > 1]
    if not candidates:
        raise DataParallelError("no class has two different texts: give more rows.")
    size = max(len(counts) - len(singles), round(DEV_SHARE * len(first_label)))
    strata = [first_label[text] for text in candidates]
    _, dev = train_test_split(range(len(candidates)), test_size=size, stratify=strata, random_state=seed)
    in_dev = {candidates[row] for row in dev}
    sides = [[row for row, text in enumerate(texts) if (text in in_dev) == wanted] for wanted in (False, True)]
    return train.select(sides[0]), train.select(sides[1]), singles


def fold_rows(rows: datasets.Dataset, strata: list[int], num_folds: int, seed: int) -> list[list[int]]:
    """The numbers of the rows in each fold.

    Args:
        rows: All.
        strata: The class of each.
        num_folds: How many folds.
        seed: Fixes them.

    Raises:
        DataParallelError: If there are too few rows.
    """
    texts, first_label = _distinct(rows, strata)
    distinct, classes = list(first_label), list(first_label.values())
    if max(Counter(classes).values()) < num_folds:
        raise DataParallelError(
            "--folds {num_folds}: no class has so many different texts: give fewer folds.", num_folds=num_folds
        )
    fold_of = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class with fewer texts than folds
        splits = StratifiedKFold(num_folds, shuffle=True, random_state=seed).split(distinct, classes)
        for fold, (_, held) in enumerate(splits):
            fold_of |= {distinct[row]: fold for row in held}
    return [[row for row, text in enumerate(texts) if fold_of[text] == fold] for fold in range(num_folds)]


def _distinct(rows, classes):
    """Each row's texts; and of each different text the class it has first."""
    texts = texts_of(rows)
    first_label = {}
    for text, label in zip(texts, classes):
        first_label.setdefault(text, label)
    return texts, first_label
