"""Texts, or pairs of texts, into classes."""

from collections import Counter

import numpy as np

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.recipes.baselines import predict_baselines, score_baselines
from mindnlp_dp_plugin.recipes.reading.table import as_text
from mindnlp_dp_plugin.recipes.scores import accuracy_and_f1, score, softmax, worst_mistakes
from mindnlp_dp_plugin.recipes.splitting import fold_rows
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, read_texts
from mindnlp_dp_plugin.recipes.tasks import Task, head_for

MOST_CLASSES_LISTED = 12


class Classification(Task):
    """One class for each text."""

    name = "classification"
    shown = compared = ("accuracy", "macro_f1")
    best_by = ("macro_f1", "accuracy", "f1", "loss")

    def read(self, options):
        """Texts and class numbers in splits; with ``--folds``, dev is part of train."""
        data = read_texts(options)
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
        return data.with_dev_in_train() if options.folds else data

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
            "positive_label": None if positive is None else data.label_names[positive],
            "rows": {split: _rows_by_class(rows, data.label_names) for split, rows in data.splits.items()},
            "folds": fold_rows(train, train["label"], options.folds, options.seed) if options.folds else None,
        }

    def kept(self, facts):
        """The classes, and the positive one."""
        return {name: facts[name] for name in ("label_names", "positive_label")}

    def describe(self, facts):
        """Rows of each class."""
        lines = []
        for split, rows in facts["rows"].items():
            listed = ", ".join(f"{label} ({count})" for label, count in list(rows.items())[:MOST_CLASSES_LISTED])
            more = ", ..." if len(rows) > MOST_CLASSES_LISTED else ""
            lines.append(
                tr(
                    "{split}: {rows} rows in {count} classes: {classes}",
                    split=split,
                    rows=sum(rows.values()),
                    count=len(rows),
                    classes=listed + more,
                )
            )
        return lines

    def baselines(self, data: LabelledTexts, options):
        """Majority class and TF-IDF with logistic regression: on test, else on dev, or fold by fold on all rows."""
        train = data.splits["train"]
        if not options.folds:
            split = list(data.splits)[-1]
            scored = data.splits[split]
            return score_baselines(predict_baselines(train, scored, options.seed), scored["label"], split)
        found, everything = {}, set(range(len(train)))
        for rows in fold_rows(train, train["label"], options.folds, options.seed):
            rest = train.select(sorted(everything - set(rows)))
            for name, predicted in predict_baselines(rest, train.select(rows), options.seed).items():
                found.setdefault(name, np.zeros(len(train), int))[rows] = predicted
        return score_baselines(found, train["label"], "dev")

    def examples(self, tokens, labels):
        """The rows themselves."""
        return tokens, labels

    def load_model(self, name, kept, **how):
        """A model with a class for each label; a head for another number of classes is begun anew."""
        from mindnlp.transformers import AutoModelForSequenceClassification

        return AutoModelForSequenceClassification.from_pretrained(name, **head_for(kept["label_names"]), **how)

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

    def compute_metrics(self, facts):
        """Accuracy, macro F1, and the F1 of the positive class."""
        return accuracy_and_f1(len(facts["label_names"]), _positive(facts) or 0)

    def score(self, logits, labels, texts, kept):
        """Scores over all and by class, the confusion matrix, and the worst mistakes."""
        names = kept["label_names"]
        mistakes = worst_mistakes(logits, labels, texts, names)
        return {**score(logits, labels, names, _positive(kept)), "rows": len(labels), "mistakes": mistakes}

    def always(self, scores, kept):
        """The class that is predicted for all rows."""
        counts = [sum(column) for column in zip(*scores["confusion_matrix"])]
        return kept["label_names"][counts.index(max(counts))] if sum(count > 0 for count in counts) == 1 else None

    def read_label(self, cell, kept):
        """The number of the class of that name."""
        names, text = kept["label_names"], as_text(cell)
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
            columns |= {f"probability_{name}": chances[:, number].tolist() for number, name in enumerate(names)}
        return columns


def _positive(kept):
    """The number of the positive class, if there is one."""
    label = kept["positive_label"]
    return None if label is None else kept["label_names"].index(label)


def _rows_by_class(rows, names):
    counts = Counter(rows["label"])
    return {name: counts[number] for number, name in enumerate(names)}


TASK = Classification()
