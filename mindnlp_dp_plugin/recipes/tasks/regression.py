"""Texts, or pairs of texts, into a number: a rating, a similarity, a price."""

import math

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes import scores
from mindnlp_dp_plugin.recipes.baselines import predict_baselines
from mindnlp_dp_plugin.recipes.files import as_text, is_number
from mindnlp_dp_plugin.recipes.tables import read_rows
from mindnlp_dp_plugin.recipes.tasks import Task

MOST_RANGES = 10
MOST_POINTS = 1000
QUARTILES = (0.25, 0.5, 0.75)


class Regression(Task):
    """One number for each text. The model learns it in standard deviations from the mean of train."""

    name = "regression"
    distribution = Message("Rows by number")
    measures = scores.NUMBERS
    shown = ("r2", "rmse", "spearman")
    not_shares = tuple(scores.NUMBERS)
    falling = ("rmse", "mae")
    best_by = ("r2", "spearman", "loss")

    def labelled(self, options):
        """Texts and numbers in splits."""
        found = read_rows(options, _as_number)
        data, column = found.labelled(), found.columns.label
        if len(set(data.splits["train"]["label"])) == 1:
            raise DataParallelError(
                "label column {column!r} holds one number only: there is nothing to learn.", column=column
            )
        return data

    def facts(self, data, options):
        """Mean and standard deviation of train, and how many rows of each split are in which range."""
        numbers = {split: np.array(rows["label"]) for split, rows in data.splits.items()}
        train = numbers["train"]
        edges = np.histogram_bin_edges(train, min(MOST_RANGES, len(set(train))))
        shown = ([f"{edge:.{digits}g}" for edge in edges] for digits in range(4, 18))
        shown = next((each for each in shown if len(set(each)) == len(each)), list(map(str, edges)))
        names = [f"{low} – {high}" for low, high in zip(shown, shown[1:])]
        counts = {split: np.histogram(of.clip(edges[0], edges[-1]), edges)[0] for split, of in numbers.items()}
        return {
            "mean": float(train.mean()),
            "std": float(train.std()),
            "rows": {split: dict(zip(names, of.tolist())) for split, of in counts.items()},
        }

    def predict_baselines(self, train, scored, data, options):
        """Mean of train, and TF-IDF with ridge regression."""
        ridge = TransformedTargetRegressor(Ridge(), transformer=StandardScaler())  # terms are float32, and so is it
        return predict_baselines({"mean": DummyRegressor(), "tfidf_ridge": ridge}, train, scored, options.seed)

    def examples(self, tokens, labels):
        """In which quarter of the numbers each row is."""
        return tokens, np.searchsorted(np.quantile(labels, QUARTILES), labels).tolist()

    def tokenise(self, tokenizer, rows, max_length, facts):
        """Labels are in standard deviations, too: float32 does not tell large numbers apart."""
        columns, num_cut = super().tokenise(tokenizer, rows, max_length, facts)
        return {**columns, "labels": [(number - facts["mean"]) / facts["std"] for number in columns["labels"]]}, num_cut

    def head(self, kept):
        """One output."""
        return {"num_labels": 1, "problem_type": "regression", "ignore_mismatched_sizes": True}

    def loss(self, facts, options):
        """The squared error, in standard deviations."""
        return lambda logits, labels: ((logits.reshape(-1) - labels.reshape(-1)) ** 2).mean()

    def choose(self, logits, labels, kept):
        """The numbers."""
        return tuple(np.asarray(of, np.float64).reshape(-1) * kept["std"] + kept["mean"] for of in (logits, labels))

    def details(self, logits, labels, texts, kept):
        """The rows as points (true, predicted), and the worst mistakes."""
        predicted, labels = self.choose(logits, labels, kept)
        step = max(1, len(labels) // MOST_POINTS)
        worst = scores.worst_rows(np.abs(predicted - labels), texts)
        return {
            "points": np.stack([labels, predicted], axis=1)[::step].tolist(),
            "mistakes": scores.mistakes(worst, texts, label=labels.tolist(), predicted=predicted.tolist()),
        }

    def read_label(self, cell, kept):
        """The number, in standard deviations."""
        try:
            number = _as_number(cell)
            return None if number is None else (number - kept["mean"]) / kept["std"]
        except ValueError:
            return None

    def predictions(self, logits, kept, all_probabilities):
        """``label``, the number."""
        return {"label": self.choose(logits, [], kept)[0].tolist()}


def _as_number(cell):
    text = as_text(cell)
    if text and not (is_number(text) and math.isfinite(float(text))):
        message = Message(
            "the label {cell!r} is no number: correct it, or train classes with `mindnlp-dp recipe classification`"
        )
        raise ValueError(tr(message, cell=cell))
    return float(text) if text else None


TASK = Regression()
