"""Texts, or pairs of texts, into a number: a rating, a similarity, a price."""

import math

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.baselines import sample, terms
from mindnlp_dp_plugin.recipes.reading.columns import holds_numbers
from mindnlp_dp_plugin.recipes.reading.table import as_text, is_number
from mindnlp_dp_plugin.recipes.scores import each_text_once, mistake
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, read_rows, to_dataset
from mindnlp_dp_plugin.recipes.tasks import Task
from mindnlp_dp_plugin.recipes.words import remark

MOST_RANGES = 10
MOST_POINTS = 1000
QUARTILES = (0.25, 0.5, 0.75)


class Regression(Task):
    """One number for each text. The model learns it in standard deviations from the mean of train."""

    name = "regression"
    distribution = Message("Rows by number in train")
    words = {
        "r2": Message("R²"),
        "rmse": Message("RMSE"),
        "mae": Message("mean absolute error"),
        "pearson": Message("Pearson correlation"),
        "spearman": Message("Spearman correlation"),
        "mean": Message("mean of train"),
        "tfidf_ridge": Message("TF-IDF + ridge regression"),
        "numbers": Message("Numbers"),
        "two_numbers": Message(
            "label column {column!r} holds two numbers only ({numbers}): if they are classes, train them with "
            "`mindnlp-dp recipe classification`"
        ),
    }
    shown = ("r2", "rmse", "spearman")
    each_epoch = (*shown, "loss")
    not_shares = ("r2", "rmse", "mae", "pearson", "spearman")
    compared = ("r2",)
    best_by = ("r2", "spearman", "loss")
    weighs_classes = False
    kept_facts = ("mean", "std")
    refused = {"positive_label": None, "class_weights": "none"}
    refusal = Message("--{option} {given!r} is for classes, and regression has none: leave it out.")

    def read(self, options):
        """Texts and numbers in splits; with ``--folds``, dev is part of train."""
        self.refuse(options)
        found = read_rows(options, holds_numbers)
        column = found.columns.label
        splits = {
            split: to_dataset(rows, [_number(found, split, row) for row in range(len(rows))])
            for split, rows in found.splits.items()
        }
        if len(set(splits["train"]["label"])) == 1:
            raise DataParallelError(
                "label column {column!r} holds one number only: there is nothing to learn.", column=column
            )
        if len(distinct := sorted(set(splits["train"]["label"]))) == 2:
            found.remarks.append(remark("two_numbers", column=column, numbers=[f"{number:g}" for number in distinct]))
        return LabelledTexts(splits, [], found.remarks, found.columns).with_dev(self.strata, options)

    def facts(self, data: LabelledTexts, options):
        """Mean and standard deviation of train, and how many rows of each split are in which range."""
        train = data.splits["train"]
        numbers = np.array(train["label"])
        edges = np.histogram_bin_edges(numbers, min(MOST_RANGES, len(set(train["label"]))))
        names = [f"{low:.4g} – {high:.4g}" for low, high in zip(edges, edges[1:])]
        return {
            "num_outputs": 1,
            "mean": float(numbers.mean()),
            "std": float(numbers.std()),
            "rows": {
                split: dict(zip(names, np.histogram(np.clip(rows["label"], edges[0], edges[-1]), edges)[0].tolist()))
                for split, rows in data.splits.items()
            },
        }

    def describe(self, facts):
        """Rows and range of each split."""
        ranges = list(facts["rows"]["train"])
        first, *others = facts["num_rows"].items()
        known = {
            "first": ranges[0].split(" ")[0],
            "last": ranges[-1].split(" ")[-1],
            "mean": facts["mean"],
        }
        line = tr(
            "{split}: {rows} rows, from {first} to {last}, mean {mean:.4g}", split=first[0], rows=first[1], **known
        )
        return [line, *(tr("{split}: {rows} rows", split=split, rows=rows) for split, rows in others)]

    def predict_baselines(self, train, scored, data, options):
        """Mean of train, and TF-IDF with ridge regression."""
        mean = np.full(len(scored), np.mean(train["label"]))
        train = sample(train, options.seed)
        fitted, asked = terms(train, scored)
        ridge = mean if fitted is None else Ridge(alpha=1.0).fit(fitted, train["label"]).predict(asked)
        return {"mean": mean, "tfidf_ridge": ridge}

    def score_baseline(self, predicted, labels, data):
        """What ``score_numbers`` computes."""
        return score_numbers(predicted, labels)

    def examples(self, tokens, labels):
        """In which quarter of the numbers each row is."""
        return tokens, np.searchsorted(np.quantile(labels, QUARTILES), labels).tolist()

    def head(self, kept):
        """One output."""
        return {"num_labels": 1, "ignore_mismatched_sizes": True}

    def loss(self, facts, options):
        """The squared error, in standard deviations."""
        mean, std = facts["mean"], facts["std"]

        def squared_error(logits, labels):
            return ((logits.reshape(-1) - (labels - mean) / std) ** 2).mean()

        return squared_error

    def scores_of(self, logits, labels, kept):
        """What ``score_numbers`` computes."""
        return score_numbers(_numbers(logits, kept), labels)

    def score(self, logits, labels, texts, kept):
        """Scores, the rows as points (true, predicted), and the worst mistakes."""
        predicted = _numbers(logits, kept)
        step = max(1, len(labels) // MOST_POINTS)
        return {
            **score_numbers(predicted, labels),
            "rows": len(labels),
            "points": np.stack([labels, predicted], axis=1)[::step].round(6).tolist(),
            "mistakes": worst_numbers(predicted, labels, texts),
        }

    def read_label(self, cell, kept):
        """The number."""
        text = as_text(cell)
        return float(text) if is_number(text) and math.isfinite(float(text)) else None

    def predictions(self, logits, kept, all_probabilities):
        """``label``, the number."""
        return {"label": _numbers(logits, kept).tolist()}


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
        "rmse": float(root_mean_squared_error(numbers, predicted)),
        "mae": float(mean_absolute_error(numbers, predicted)),
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
        mistake(texts[row], float(numbers[row]), float(predicted[row])) for row in each_text_once(worst.tolist(), texts)
    ]


def _numbers(logits, kept):
    return np.asarray(logits, np.float64).reshape(-1) * kept["std"] + kept["mean"]


def _number(found, split, row):
    *_, label = found.splits[split][row]
    if not is_number(label) or not math.isfinite(float(label)):
        raise DataParallelError(
            "{place}: label column {column!r} holds {label!r} in the {split} split, which is no number: correct it, or "
            "train classes with `mindnlp-dp recipe classification`.",
            place=found.place(split, row),
            column=found.columns.label,
            label=label,
            split=split,
        )
    return float(label)


TASK = Regression()
