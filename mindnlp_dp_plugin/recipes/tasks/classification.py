"""Texts, or pairs of texts, into classes."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from sklearn.metrics import f1_score

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.baselines import predict_baselines
from mindnlp_dp_plugin.recipes.options import RecipeOptions, option
from mindnlp_dp_plugin.recipes.reading.table import as_text
from mindnlp_dp_plugin.recipes.scores import (
    MOST_CLASSES_LISTED,
    by_class,
    listed,
    probabilities,
    score_classes,
    softmax,
    worst_mistakes,
)
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, read_texts
from mindnlp_dp_plugin.recipes.tasks import Task

MOST_CONFUSIONS = 20


@dataclass(frozen=True)
class Options(RecipeOptions):
    """Those of all recipes, and names for classes."""

    label_name: tuple[str, ...] = option(
        (),
        "A name for a class, such as 1=good; give it once for each. Default: as in the data.",
        multiple=True,
    )


class Classification(Task):
    """One class for each text."""

    name = "classification"
    options = Options
    distribution = Message("Rows of each class in train")
    words = {
        "confusion": Message("Confusion matrix"),
        "confusion_help": Message("Rows: true class. Columns: predicted class. Colour: share of the row."),
        "confusions": Message("Most frequent confusions"),
        "count": Message("times"),
    }
    shown = compared = ("accuracy", "macro_f1")
    each_epoch = ("accuracy", "macro_f1", "f1", "loss")
    best_by = ("macro_f1", "accuracy", "f1", "loss")
    kept_facts = ("label_names", "positive_label", "label_name")

    def read(self, options):
        """Texts and class numbers in splits; with ``--folds``, dev is part of train."""
        data = read_texts(options)
        data = replace(data, label_names=_renamed(data.label_names, _named(options)))
        if options.positive_label is not None:
            if len(data.label_names) != 2:
                raise DataParallelError(
                    "--positive-label {positive_label!r} names one of two classes, and the data have {num_classes}: "
                    "leave it out; the macro F1 is reported.",
                    positive_label=options.positive_label,
                    num_classes=len(data.label_names),
                )
            if options.positive_label not in data.label_names:
                raise DataParallelError(
                    "--positive-label {positive_label!r} is no class: they are {classes}.",
                    positive_label=options.positive_label,
                    classes=", ".join(data.label_names),
                )
        return data

    def strata(self, rows):
        """The class of each row."""
        return rows["label"]

    def facts(self, data: LabelledTexts, options):
        """Classes, the positive one, and rows of each class in each split."""
        train = data.splits["train"]
        counts = Counter(train["label"])
        positive = None
        if len(data.label_names) == 2:
            rarer = min((1, 0), key=lambda number: counts[number])  # the second of equals, as elsewhere
            named = options.positive_label
            positive = rarer if named is None else data.label_names.index(named)
        return {
            "label_names": data.label_names,
            "num_outputs": len(data.label_names),
            "label_name": _named(options),
            "positive_label": None if positive is None else data.label_names[positive],
            "rows": {split: _rows_by_class(rows, data.label_names) for split, rows in data.splits.items()},
        }

    def describe(self, facts):
        """Rows of each class."""
        return [
            tr(
                "{split}: {rows} rows in {count} classes: {classes}",
                split=split,
                rows=sum(rows.values()),
                count=len(rows),
                classes=listed(rows),
            )
            for split, rows in facts["rows"].items()
        ]

    def predict_baselines(self, train, scored, data, options):
        """Majority class, and TF-IDF with logistic regression."""
        return predict_baselines(train, scored, options.seed)

    def score_baseline(self, predicted, labels, data):
        """Accuracy and macro F1."""
        return score_classes(predicted, labels)

    def examples(self, tokens, labels):
        """The rows themselves."""
        return tokens, labels

    def loss(self, facts, options):
        """With ``--class-weights balanced``: a row's loss times rows / (classes x rows of its class)."""
        if options.class_weights == "none":
            return None
        import mindspore
        from mindnlp.core.nn import functional

        rows = facts["rows"]["train"]
        counts = np.array([rows[label] for label in facts["label_names"]])
        weights = mindspore.Tensor(counts.sum() / (len(counts) * np.maximum(counts, 1)), mindspore.float32)

        def weighted(logits, labels):
            # The mean over rows, not over weights: then the ranks' averages are those of one process.
            return (functional.cross_entropy(logits, labels, reduction="none") * weights[labels]).mean()

        return weighted

    def scores_of(self, logits, labels, kept):
        """Accuracy, macro F1, and the F1 of the positive class; without one, ``f1`` is the macro F1."""
        predicted, positive = logits.argmax(axis=-1), kept.get("positive_label")
        found = score_classes(predicted, labels)
        if positive is None:
            return {**found, "f1": found["macro_f1"]}
        number = kept["label_names"].index(positive)
        return {**found, "f1": float(f1_score(labels == number, predicted == number, zero_division=0))}

    def score(self, logits, labels, texts, kept):
        """Scores over all and by class, the confusion matrix, and the worst mistakes."""
        names = kept["label_names"]
        return {
            **self.scores_of(logits, labels, kept),
            **by_class(logits, labels, names),
            "rows": len(labels),
            "mistakes": worst_mistakes(logits, labels, texts, names),
        }

    def always(self, scores, kept):
        """The class that is predicted for all rows."""
        counts = [sum(column) for column in zip(*scores["confusion_matrix"])]
        return kept["label_names"][counts.index(max(counts))] if sum(count > 0 for count in counts) == 1 else None

    def report_values(self, results):
        """The most frequent mistakes of each split: (count, true, predicted)."""
        names = results["label_names"]
        return {"confusions": {split: _confusions(each, names) for split, each in results["splits"].items()}}

    def read_label(self, cell, kept):
        """The number of the class of that name."""
        names, text = kept["label_names"], as_text(cell)
        text = dict(each.split("=", 1) for each in kept.get("label_name", [])).get(text, text)
        return names.index(text) if text in names else None

    def predictions(self, logits, kept, all_probabilities):
        """``label`` and ``probability``, and if wanted a column of probabilities for each class."""
        chances, predicted = softmax(logits), logits.argmax(axis=-1)
        names = kept["label_names"]
        columns = {
            "label": [names[number] for number in predicted],
            "probability": chances[np.arange(len(chances)), predicted].tolist(),
        }
        if all_probabilities:
            columns |= probabilities(chances, names)
        return columns


def _named(options):
    """What names classes; the options of all recipes do not."""
    return list(getattr(options, "label_name", ()))


def _renamed(names, pairs):
    """The classes, those with a name of their own by that."""
    named = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    if unknown := [pair for pair in pairs if pair.split("=", 1)[0] not in names or "=" not in pair]:
        raise DataParallelError(
            "--label-name {pair!r} names no class: give one such as {example}, of the classes {classes}.",
            pair=unknown[0],
            example=f"{names[0]}=...",
            classes=", ".join(names[:MOST_CLASSES_LISTED]),
        )
    renamed = [named.get(name, name) for name in names]
    if len(set(renamed)) < len(renamed):
        raise DataParallelError("--label-name gives two classes one name: {names}.", names=", ".join(renamed))
    return renamed


def _confusions(scores, names):
    found = [
        (count, names[true], names[predicted])
        for true, row in enumerate(scores["confusion_matrix"])
        for predicted, count in enumerate(row)
        if count and true != predicted
    ]
    return sorted(found, key=lambda each: -each[0])[:MOST_CONFUSIONS]


def _rows_by_class(rows, names):
    counts = Counter(rows["label"])
    return {name: counts[number] for number, name in enumerate(names)}


TASK = Classification()
