"""Texts, or pairs of texts, into any number of classes each: topics, emotions."""

import numpy as np
from scipy.special import expit
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes import label_sets, scores
from mindnlp_dp_plugin.recipes.baselines import predict_baselines
from mindnlp_dp_plugin.recipes.label_sets import chosen_names, marked, names_in, parse, read_label_sets
from mindnlp_dp_plugin.recipes.tasks import Task

NO_CLASS = "–"
THRESHOLD = 0.5


class MultiLabel(Task):
    """Any number of classes for each text."""

    name = "multi-label"
    distribution = Message("Rows with each class")
    measures = scores.SETS
    problem_type = "multi_label_classification"
    shown = ("micro_f1", "macro_f1", "exact_match")
    best_by = (*shown, "loss")
    labelled = staticmethod(read_label_sets)

    def strata(self, rows):
        """Of each row the rarest of its classes: a split by it leaves no class out of train."""
        labels = np.array(rows["label"]) > 0
        counts = labels.sum(axis=0)
        return [int(min(np.flatnonzero(row), key=lambda each: counts[each], default=len(row))) for row in labels]

    def facts(self, data, options):
        """Classes, the threshold, and rows with each class in each split."""
        counts, names = {split: np.array(rows["label"]) for split, rows in data.splits.items()}, data.label_names
        return {
            "label_names": names,
            "threshold": options.threshold or THRESHOLD,
            "label_separator": options.label_separator or label_sets.SEPARATOR,
            "rows": {split: dict(zip(names, of.sum(axis=0).astype(int).tolist())) for split, of in counts.items()},
        }

    def predict_baselines(self, train, scored, data, options):
        """The most frequent class, and for each class a logistic regression on TF-IDF: rows of bools."""
        one = LogisticRegression(C=10, solver="liblinear", random_state=options.seed)
        models = {"majority": DummyRegressor(), "tfidf_one_vs_rest": OneVsRestClassifier(one)}
        chances = predict_baselines(models, train, scored, options.seed)
        majority = np.eye(chances["majority"].shape[1], dtype=bool)[chances["majority"].argmax(axis=1)]
        chosen = chances["tfidf_one_vs_rest"] >= (options.threshold or THRESHOLD)
        return {"majority": majority, "tfidf_one_vs_rest": chosen}

    def compare(self, predicted, labels, kept):
        """What ``SETS`` says of bools."""
        return super().compare(np.array(predicted), np.array(labels) > 0, kept)

    def examples(self, tokens, labels):
        """Each row once for each of its classes; those without one are a class of their own."""
        marked = np.array(labels) > 0
        rows, classes = np.nonzero(np.column_stack([marked, ~marked.any(axis=1)]))
        return [tokens[row] for row in rows], classes.tolist()

    def loss(self, facts, options):
        """Binary cross entropy, a mean over rows and classes.

        With ``--class-weights balanced``, that of a row with a class counts by rows without it / rows with it.
        """
        import mindspore
        from mindnlp.core.nn import functional

        weights = np.ones(len(facts["label_names"]))
        if options.class_weights == "balanced":
            having = np.maximum(list(facts["rows"]["train"].values()), 1)
            weights = np.maximum(facts["num_rows"]["train"] - having, 1) / having
        extra = mindspore.Tensor(weights - 1, mindspore.float32)

        def cross_entropy(logits, labels):
            logits = logits.float()
            each = labels * functional.softplus(-logits) * (1 + extra) + (1 - labels) * functional.softplus(logits)
            return each.mean()

        return cross_entropy

    def choose(self, logits, labels, kept):
        """The classes that reach the threshold: bools."""
        return _chances(logits) >= kept["threshold"], labels

    def details(self, logits, labels, texts, kept):
        """Scores by class, and the worst mistakes."""
        names, labels, chances = kept["label_names"], np.asarray(labels) > 0, _chances(logits)
        chosen = chances >= kept["threshold"]
        wrong = np.where(chosen != labels, np.abs(chances - kept["threshold"]), 0).sum(axis=1)
        true, predicted = ([", ".join(chosen_names(row, names)) or NO_CLASS for row in of] for of in (labels, chosen))
        worst = scores.worst_rows(wrong, texts)
        return {
            "per_class": scores.per_class(chosen, labels, names),
            "mistakes": scores.mistakes(worst, texts, label=true, predicted=predicted),
        }

    def read_label(self, cell, kept):
        """A 1 or 0 for each class; None if there are classes that the model does not know."""
        try:
            found = parse(cell)
            return None if found is None else marked(names_in(found, kept["label_separator"]), kept["label_names"])
        except (KeyError, ValueError):
            return None

    def predictions(self, logits, kept, all_probabilities):
        """``labels`` and their ``probabilities``, and if wanted a column of probabilities for each class."""
        names, chances = kept["label_names"], _chances(logits)
        chosen = chances >= kept["threshold"]
        columns = {
            "labels": [chosen_names(row, names) for row in chosen],
            "probabilities": [chances[number, row].tolist() for number, row in enumerate(chosen)],
        }
        return {**columns, **(scores.probabilities(chances, names) if all_probabilities else {})}

    def in_short(self, row, kept):
        """Each class with its probability."""
        return ", ".join(f"{one} {chance:.3f}" for one, chance in zip(row["labels"], row["probabilities"])) or NO_CLASS


def _chances(logits):
    return expit(np.asarray(logits, np.float64))


TASK = MultiLabel()
