"""Accuracy, for ``evaluate.load`` by path."""

import datasets
import evaluate
from sklearn.metrics import accuracy_score


class Accuracy(evaluate.Metric):
    """The share of rows whose class was predicted correctly."""

    def _info(self):
        return evaluate.MetricInfo(
            description="The share of rows whose class was predicted.",
            citation="",
            inputs_description="predictions and references: class numbers, one a row.",
            features=datasets.Features({"predictions": datasets.Value("int32"), "references": datasets.Value("int32")}),
        )

    def _compute(self, predictions, references):
        return {"accuracy": float(accuracy_score(references, predictions))}
