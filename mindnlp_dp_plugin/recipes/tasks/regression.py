"""Texts, or pairs of texts, into a number: a rating, a similarity, a price."""

import math

import numpy as np

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.recipes.baselines import predict_numbers
from mindnlp_dp_plugin.recipes.reading.columns import holds_numbers
from mindnlp_dp_plugin.recipes.reading.table import as_text, is_number
from mindnlp_dp_plugin.recipes.scores import score_numbers, worst_numbers
from mindnlp_dp_plugin.recipes.splitting import fold_rows, split_off_dev
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, in_order, read_rows, to_dataset
from mindnlp_dp_plugin.recipes.tasks import Task
from mindnlp_dp_plugin.recipes.words import remark

MOST_RANGES = 10
MOST_POINTS = 1000
QUARTILES = (0.25, 0.5, 0.75)


class Regression(Task):
    """One number for each text. The model learns it in standard deviations from the mean of train."""

    name = "regression"
    shown = ("r2", "rmse", "spearman")
    compared = ("r2",)
    best_by = ("r2", "spearman", "loss")
    weighs_classes = False

    def read(self, options):
        """Texts and numbers in splits; with ``--folds``, dev is part of train."""
        for option, default in (("positive_label", None), ("class_weights", "none")):
            if (given := getattr(options, option)) != default:
                raise DataParallelError(
                    "--{option} {given!r} is for classes, and regression has none: leave it out.",
                    option=option.replace("_", "-"),
                    given=given,
                )
        named = (options.text_column, options.label_column, options.encoding)
        found = read_rows(options.dataset, *named, holds_numbers)
        column = found.columns.label
        splits = {
            split: to_dataset(rows, [_number(found, split, row) for row in range(len(rows))])
            for split, rows in found.splits.items()
        }
        if len(set(splits["train"]["label"])) == 1:
            raise DataParallelError(
                "label column {column!r} holds one number only: there is nothing to learn.", column=column
            )
        if "dev" not in splits:
            train = splits["train"]
            splits["train"], splits["dev"], _ = split_off_dev(train, [0] * len(train), options.seed)
            found.remarks.append(remark("dev_split_off", rows=len(splits["dev"])))
        data = LabelledTexts(in_order(splits), [], found.remarks, found.columns)
        return data.with_dev_in_train() if options.folds else data

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
            "folds": fold_rows(train, [0] * len(train), options.folds, options.seed) if options.folds else None,
        }

    def kept(self, facts):
        """Mean and standard deviation of train."""
        return {name: facts[name] for name in ("mean", "std")}

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

    def baselines(self, data: LabelledTexts, options):
        """Mean of train, and TF-IDF with ridge regression: on test, else on dev, or fold by fold on all rows."""
        train = data.splits["train"]
        if options.folds:
            split, labels, found, everything = "dev", np.array(train["label"]), {}, set(range(len(train)))
            for rows in fold_rows(train, [0] * len(train), options.folds, options.seed):
                rest = train.select(sorted(everything - set(rows)))
                for name, predicted in predict_numbers(rest, train.select(rows), options.seed).items():
                    found.setdefault(name, np.zeros(len(train)))[rows] = predicted
        else:
            split = list(data.splits)[-1]
            labels = np.array(data.splits[split]["label"])
            found = predict_numbers(train, data.splits[split], options.seed)
        return {name: {**score_numbers(predicted, labels), "split": split} for name, predicted in found.items()}

    def examples(self, tokens, labels):
        """In which quarter of the numbers each row is."""
        return tokens, np.searchsorted(np.quantile(labels, QUARTILES), labels).tolist()

    def load_model(self, name, kept, **how):
        """A model with one output; another head is begun anew."""
        from mindnlp.transformers import AutoModelForSequenceClassification

        return AutoModelForSequenceClassification.from_pretrained(
            name, num_labels=1, ignore_mismatched_sizes=True, **how
        )

    def loss(self, facts, options):
        """The squared error, in standard deviations."""
        mean, std = facts["mean"], facts["std"]

        def squared_error(logits, labels):
            return ((logits.reshape(-1) - (labels - mean) / std) ** 2).mean()

        return squared_error

    def compute_metrics(self, facts):
        """What ``score_numbers`` computes."""
        return lambda prediction: score_numbers(_numbers(prediction.predictions, facts), prediction.label_ids)

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
