"""F1, for ``evaluate.load`` by path."""

import datasets
import evaluate
from sklearn.metrics import f1_score


class F1(evaluate.Metric):
    """The harmonic mean of precision and recall; of ``pos_label``, or over the classes by ``average``."""

    def _info(self):
        return evaluate.MetricInfo(
            description="The harmonic mean of precision and recall.",
            citation="",
            inputs_description="predictions and references: class numbers, one a row.",
            features=datasets.Features({"predictions": datasets.Value("int32"), "references": datasets.Value("int32")}),
        )

    def _compute(self, predictions, references, average="binary", pos_label=1):
        return {"f1": float(f1_score(references, predictions, average=average, pos_label=pos_label, zero_division=0))}
