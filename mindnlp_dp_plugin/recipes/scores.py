"""Scores: of classes by ``evaluate``, by class and by row for the report; of numbers."""

from collections.abc import Callable

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support, r2_score

from mindnlp_dp_plugin import metrics

MOST_MISTAKES = 20
MOST_CHARACTERS = 400


def accuracy_and_f1(num_labels: int, positive: int = 1) -> Callable:
    """What ``Trainer(compute_metrics=...)`` takes: ``accuracy``, ``macro_f1`` and ``f1``. All ranks must call it.

    Args:
        num_labels: How many classes. With two, ``f1`` is that of the positive one; with more, it is ``macro_f1``.
        positive: Number of the positive class.
    """
    accuracy, f1 = metrics.load("accuracy"), metrics.load("f1")

    def compute(prediction):
        rows = {"predictions": prediction.predictions.argmax(axis=-1), "references": prediction.label_ids}
        macro = f1.compute(**rows, average="macro")["f1"]
        own = f1.compute(**rows, pos_label=positive)["f1"] if num_labels == 2 else macro
        return {**accuracy.compute(**rows), "macro_f1": macro, "f1": own}

    return compute


def score(logits: np.ndarray, labels: np.ndarray, label_names: list[str], positive: int | None) -> dict:
    """All scores of one split, in a form JSON can hold.

    Args:
        logits: Of shape (rows, classes).
        labels: The true classes, of shape (rows,).
        label_names: Of all classes.
        positive: Of two classes, the number of the one that ``f1`` is of. None: ``f1`` is ``macro_f1``.

    Returns:
        ``accuracy``; ``macro_f1``, the mean over the classes that occur or are predicted; ``f1``; and what ``by_class``
        returns.
    """
    predicted = logits.argmax(axis=-1)
    macro = float(f1_score(labels, predicted, average="macro", zero_division=0))
    classes = by_class(logits, labels, label_names)
    own = macro if positive is None else classes["per_class"][positive]["f1"]
    return {"accuracy": float((predicted == labels).mean()), "macro_f1": macro, "f1": own, **classes}


def by_class(logits: np.ndarray, labels: np.ndarray, label_names: list[str]) -> dict:
    """Precision, recall, F1 and number of rows of each class, and the confusion matrix, in a form JSON can hold.

    Args:
        logits: Of shape (rows, classes).
        labels: The true classes, of shape (rows,).
        label_names: Of all classes.

    Returns:
        ``per_class``: a list in the order of ``label_names``; ``confusion_matrix``: rows true, columns predicted.
    """
    predicted, numbers = logits.argmax(axis=-1), range(len(label_names))
    scores = precision_recall_fscore_support(labels, predicted, labels=numbers, zero_division=0)
    names = ("precision", "recall", "f1", "rows")
    return {
        "per_class": [
            {"label": label, **{name: value.item() for name, value in zip(names, row)}}
            for label, *row in zip(label_names, *scores)
        ],
        "confusion_matrix": confusion_matrix(labels, predicted, labels=numbers).tolist(),
    }


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
            "texts": [shortened(text) for text in texts[row]],
            "label": label_names[labels[row]],
            "predicted": label_names[predicted[row]],
            "probability": float(chances[row, predicted[row]]),
        }
        for row in each_text_once(wrong.tolist(), texts)
    ]


def each_text_once(rows, texts):
    """The first rows, without those whose text has come before."""
    first = {}
    for row in rows:
        first.setdefault(texts[row], row)
    return list(first.values())[:MOST_MISTAKES]


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of the classes, of shape (rows, classes), float64."""
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def shortened(text: str) -> str:
    """The beginning of a text, for people."""
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + " ..."


def score_numbers(predicted: np.ndarray, numbers: np.ndarray) -> dict[str, float]:
    """``r2``, ``rmse``, ``mae`` and the correlations ``pearson`` and ``spearman``, 0 where all values are the same.

    Args:
        predicted: Of shape (rows,).
        numbers: The true ones, of shape (rows,).
    """
    predicted, numbers = (np.asarray(values, np.float64).reshape(-1) for values in (predicted, numbers))
    vary = len(numbers) > 1 and np.ptp(predicted) > 0 and np.ptp(numbers) > 0
    return {
        "r2": float(r2_score(numbers, predicted)) if len(numbers) > 1 else 0.0,
        "rmse": float(np.sqrt(np.mean((predicted - numbers) ** 2))),
        "mae": float(np.abs(predicted - numbers).mean()),
        "pearson": float(pearsonr(predicted, numbers)[0]) if vary else 0.0,
        "spearman": float(spearmanr(predicted, numbers)[0]) if vary else 0.0,
    }


def worst_numbers(predicted: np.ndarray, numbers: np.ndarray, texts: list[tuple[str, ...]]) -> list[dict]:
    """The predictions that are furthest off, worst first, each text once.

    Args:
        predicted: Of shape (rows,).
        numbers: The true ones, of shape (rows,).
        texts: One, or the two of a pair, for each row.
    """
    worst = np.argsort(-np.abs(predicted - numbers), kind="stable")
    return [
        {
            "texts": [shortened(text) for text in texts[row]],
            "label": float(numbers[row]),
            "predicted": float(predicted[row]),
        }
        for row in each_text_once(worst.tolist(), texts)
    ]


def decimal(value: float, digits: int = 3) -> str:
    """A score with its digits, without the sign of a zero."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def shown_label(label: str | float) -> str:
    """A class, or a number with as many digits as say something."""
    return label if isinstance(label, str) else f"{label:.4g}"
