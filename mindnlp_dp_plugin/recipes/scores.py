"""Scores of classes: over all, by class and by row."""

from collections.abc import Sequence

import numpy as np
from scipy import special
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score, precision_recall_fscore_support

MOST_MISTAKES = 20
MOST_CHARACTERS = 400
SURE = 0.95  # of a wrong class: then the label itself may be wrong
MOST_CLASSES_LISTED = 12


def score_classes(predicted: Sequence[int], labels: Sequence[int]) -> dict[str, float]:
    """``accuracy`` and ``macro_f1`` of classes that were predicted."""
    return {
        "accuracy": float(accuracy_score(labels, predicted)),
        "macro_f1": float(f1_score(labels, predicted, average="macro", zero_division=0)),
    }


def by_class(logits: np.ndarray, labels: np.ndarray, label_names: list[str]) -> dict:
    """Precision, recall, F1, rows and predicted rows of each class, and the confusion matrix, in a form JSON can hold.

    Args:
        logits: Of shape (rows, classes).
        labels: The true classes, of shape (rows,).
        label_names: Of all classes.

    Returns:
        ``per_class``: a list in the order of ``label_names``; ``confusion_matrix``: rows true, columns predicted.
    """
    predicted = logits.argmax(axis=-1)
    return {
        "per_class": per_class(predicted, labels, label_names, np.bincount(predicted, minlength=len(label_names))),
        "confusion_matrix": confusion_matrix(labels, predicted, labels=range(len(label_names))).tolist(),
    }


def per_class(predicted: np.ndarray, labels: np.ndarray, label_names: list[str], counts: np.ndarray) -> list[dict]:
    """Precision, recall, F1, rows and predicted rows of each class.

    Args:
        predicted: A class for each row, or of shape (rows, classes), bool.
        labels: The true ones, of the same shape.
        label_names: Of all classes.
        counts: How many rows of each class were predicted.
    """
    scores = precision_recall_fscore_support(labels, predicted, labels=range(len(label_names)), zero_division=0)
    names = ("precision", "recall", "f1", "rows", "predicted")
    return [
        {"label": label, **{name: value.item() for name, value in zip(names, row)}}
        for label, *row in zip(label_names, *scores, counts)
    ]


def worst_mistakes(logits: np.ndarray, labels: np.ndarray, texts: list[tuple[str, ...]], label_names) -> list[dict]:
    """The wrong predictions with the highest confidence, highest first, each text once.

    Args:
        logits: Of shape (rows, classes).
        labels: The true classes, of shape (rows,).
        texts: One, or the two of a pair, for each row.
        label_names: Of all classes.
    """
    chances, predicted = softmax(logits), logits.argmax(axis=-1)
    wrong = np.flatnonzero(predicted != labels)
    wrong = wrong[np.argsort(-chances[wrong, predicted[wrong]], kind="stable")]
    return [
        {
            **mistake(texts[row], label_names[labels[row]], label_names[predicted[row]]),
            "probability": float(chances[row, predicted[row]]),
            "is_label_doubtful": bool(chances[row, predicted[row]] >= SURE),
        }
        for row in each_text_once(wrong.tolist(), texts)
    ]


def mistake(texts: Sequence[str], label: str | float, predicted: str | float) -> dict:
    """A wrong prediction, for terminal and report."""
    return {"texts": [shortened(text) for text in texts], "label": label, "predicted": predicted}


def each_text_once(rows, texts):
    """The first rows, without those whose text has come before."""
    first = {}
    for row in rows:
        first.setdefault(texts[row], row)
    return list(first.values())[:MOST_MISTAKES]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of the classes, of shape (rows, classes), float64."""
    return special.softmax(np.asarray(logits, np.float64), axis=-1)


def probabilities(chances: np.ndarray, label_names: list[str]) -> dict[str, list[float]]:
    """A column of probabilities for each class."""
    return {f"probability_{name}": column.tolist() for name, column in zip(label_names, chances.T)}


def listed(rows: dict[str, int], most: int = MOST_CLASSES_LISTED) -> str:
    """The first names with their counts."""
    parts = [f"{name} ({count})" for name, count in rows.items()]
    return ", ".join([*parts[:most], *(["..."] if len(parts) > most else [])])


def shortened(text: str) -> str:
    """The beginning of a text, for people."""
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + " ..."


def decimal(value: float, digits: int = 3) -> str:
    """A score with its digits, without the sign of a zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def shown_label(label: str | float) -> str:
    """A class, or a number with as many digits as say something."""
    return label if isinstance(label, str) else f"{label:.4g}"
