"""F1, for ``evaluate.load`` by path."""

import datasets
import evaluate
from sklearn.metrics import f1_score


class F1(evaluate.Metric):
    """The harmonic mean of precision and recall; ``average`` says how several classes are combined."""

    def _info(self):
        return evaluate.MetricInfo(
            description="The harmonic mean of precision and recall.",
            citation="",
            inputs_description="predictions and references: class numbers, one a row.",
            features=datasets.Features({"predictions": datasets.Value("int32"), "references": datasets.Value("int32")}),
        )

    def _compute(self, predictions, references, average="binary"):
        return {"f1": float(f1_score(references, predictions, average=average))}
