"""How well a classifier does: accuracy and F1 through ``evaluate``, and for the report class by class."""

from collections.abc import Callable

import numpy as np
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from mindnlp_dp_plugin import metrics


def accuracy_and_f1(num_labels: int) -> Callable:
    """What ``Trainer(compute_metrics=...)`` takes. To be called on all ranks.

    Args:
        num_labels: How many classes. With two, F1 is that of class 1; with more, the mean over the classes (macro).
    """
    accuracy, f1 = metrics.load("accuracy"), metrics.load("f1")
    average = "binary" if num_labels == 2 else "macro"

    def compute(prediction):
        rows = {"predictions": prediction.predictions.argmax(axis=-1), "references": prediction.label_ids}
        return accuracy.compute(**rows) | f1.compute(**rows, average=average)

    return compute


def by_class(logits: np.ndarray, labels: np.ndarray, label_names: list[str]) -> dict:
    """Precision, recall, F1 and number of rows of each class, and the confusion matrix, as JSON can hold them.

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
