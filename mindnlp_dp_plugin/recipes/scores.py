"""Scores, by scikit-learn, from one table of names; and the rows that are the furthest off."""

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy import special, stats
from sklearn import metrics

MOST_MISTAKES = 20
MOST_CHARACTERS = 400
MOST_LISTED = 12
ROUNDING, LARGE, HUGE = 1e-9, 1e4, 1e6  # of scores: what is smaller than the first is 0


def _over_occurring(average, labels, chosen):
    """F1 of sets of classes; one that neither occurs nor is chosen has none."""
    occurring = np.flatnonzero(chosen.any(axis=0) | labels.any(axis=0))
    return metrics.f1_score(labels, chosen, labels=occurring, average=average) if occurring.size else 0.0


def _varying(correlation, numbers, predicted):
    return correlation(predicted, numbers)[0] if np.ptp(predicted) > 0 and np.ptp(numbers) > 0 else 0.0


def _r2(numbers, predicted):
    return metrics.r2_score(numbers, predicted) if len(numbers) > 1 else 0.0


CLASSES = {
    "accuracy": metrics.accuracy_score,
    "macro_f1": partial(metrics.f1_score, average="macro", zero_division=0),
}
SETS = {
    "micro_f1": partial(_over_occurring, "micro"),
    "macro_f1": partial(_over_occurring, "macro"),
    "exact_match": metrics.accuracy_score,
}
NUMBERS = {
    "r2": _r2,
    "rmse": metrics.root_mean_squared_error,
    "mae": metrics.mean_absolute_error,
    "pearson": partial(_varying, stats.pearsonr),
    "spearman": partial(_varying, stats.spearmanr),
}


def per_class(predicted: np.ndarray, labels: np.ndarray, label_names: list[str]) -> list[dict]:
    """Precision, recall, F1, rows and predicted rows of each class.

    Args:
        predicted: A class for each row, or of shape (rows, classes), bool.
        labels: The true ones, of the same shape.
        label_names: Of all classes.
    """
    classes = range(len(label_names))
    scores = metrics.precision_recall_fscore_support(labels, predicted, labels=classes, zero_division=0)
    counts = predicted.sum(axis=0) if predicted.ndim > 1 else np.bincount(predicted, minlength=len(classes))
    names = ("precision", "recall", "f1", "rows", "predicted")
    return [
        {"label": label, **{name: value.item() for name, value in zip(names, row)}}
        for label, *row in zip(label_names, *scores, counts)
    ]


def worst_rows(wrong: np.ndarray, texts: list[tuple[str, ...]]) -> list[int]:
    """The rows that are the most wrong, without those whose text has come before.

    Args:
        wrong: How much each row is; 0 if it is right.
        texts: Of each row.
    """
    first = {}
    for row in np.argsort(-wrong, kind="stable").tolist():
        if wrong[row] > 0:
            first.setdefault(texts[row], row)
    return list(first.values())[:MOST_MISTAKES]


def mistakes(rows: list[int], texts: Sequence[Sequence[str]], **columns: Sequence) -> list[dict]:
    """The wrong predictions in some rows, for terminal and report: ``label``, ``predicted``, and what else is known."""
    shown = [{"texts": list(map(shortened, texts[row]))} for row in rows]
    return [{**each, **{name: of[row] for name, of in columns.items()}} for each, row in zip(shown, rows)]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of the classes, of shape (rows, classes), float64."""
    return special.softmax(np.asarray(logits, np.float64), axis=-1)


def confidences(rows: list[np.ndarray]) -> list[list[float]]:
    """The probability of the likeliest class of each word of each row, from logits."""
    return [softmax(words).max(axis=-1).tolist() if len(words) else [] for words in rows]


def probabilities(chances: np.ndarray, label_names: list[str]) -> dict[str, list[float]]:
    """A column of probabilities for each class."""
    return {f"probability_{name}": column.tolist() for name, column in zip(label_names, chances.T)}


def first_of(names: Sequence[str]) -> list[str]:
    """The first names, and whether there are more."""
    return [*names[:MOST_LISTED], *(["..."] if len(names) > MOST_LISTED else [])]


def shortened(text: str) -> str:
    """The beginning of a text, for people."""
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + " ..."


def decimal(value: float, digits: int = 3) -> str:
    """A score with its digits, without the sign of a zero; a tiny error, and a huge score, as 1.23e-06."""
    if ROUNDING < value < 10**-digits or abs(value) >= HUGE:
        return f"{value:.3g}"
    return f"{value:.0f}" if abs(value) >= LARGE else f"{round(value, digits) + 0.0:.{digits}f}"


def shown_label(label: str | float) -> str:
    """A class, or a number with as many digits as say something: a large one with all of its whole part."""
    if isinstance(label, str):
        return label
    return f"{label:.0f}" if LARGE <= abs(label) < 1e15 else f"{label:.4g}"
