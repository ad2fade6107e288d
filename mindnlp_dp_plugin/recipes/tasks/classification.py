"""Texts, or pairs of texts, into classes."""

from collections import Counter

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, f1_score

from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.recipes import scores
from mindnlp_dp_plugin.recipes.baselines import predict_baselines
from mindnlp_dp_plugin.recipes.classes import generated, read_classes, renamed
from mindnlp_dp_plugin.recipes.files import as_text
from mindnlp_dp_plugin.recipes.tasks import Task

MOST_CONFUSIONS = 20
SURE = 0.95  # of a wrong class: then the label itself may be wrong


class Classification(Task):
    """One class for each text."""

    name = "classification"
    distribution = Message("Rows of each class")
    measures = scores.CLASSES
    problem_type = "single_label_classification"
    shown = ("accuracy", "macro_f1")
    best_by = ("macro_f1", "accuracy", "f1", "loss")

    def labelled(self, options):
        """Texts and class numbers in splits; without a data set generated film reviews."""
        data = generated() if options.dataset is None else read_classes(options)
        return data._replace(label_names=renamed(data.label_names, options))

    def strata(self, rows):
        """The class of each row."""
        return rows["label"]

    def facts(self, data, options):
        """Classes, the positive one, and rows of each class in each split."""
        names, positive = data.label_names, options.positive_label
        counts = {split: Counter(rows["label"]) for split, rows in data.splits.items()}
        if len(names) == 2 and positive is None:
            positive = names[min((1, 0), key=lambda number: counts["train"][number])]  # of equals the second
        return {
            "label_names": names,
            "label_name": list(options.label_name),
            "positive_label": positive,
            "rows": {split: {name: of[number] for number, name in enumerate(names)} for split, of in counts.items()},
        }

    def predict_baselines(self, train, scored, data, options):
        """Majority class, and TF-IDF with logistic regression."""
        models = {
            "majority": DummyClassifier(strategy="most_frequent"),
            "tfidf": LogisticRegression(C=10, max_iter=300),
        }
        return predict_baselines(models, train, scored, options.seed)

    def examples(self, tokens, labels):
        """The rows themselves."""
        return tokens, labels

    def loss(self, facts, options):
        """With ``--class-weights balanced``: a row's loss times rows / (classes x rows of its class)."""
        if options.class_weights == "none":
            return None
        import mindspore
        from mindnlp.core.nn import functional

        counts = np.array(list(facts["rows"]["train"].values()))
        weights = mindspore.Tensor(counts.sum() / (len(counts) * np.maximum(counts, 1)), mindspore.float32)

        def weighted(logits, labels):
            # The mean over rows, not over weights: then the ranks' averages are those of one process.
            return (functional.cross_entropy(logits, labels, reduction="none") * weights[labels]).mean()

        return weighted

    def compare(self, predicted, labels, kept):
        """Accuracy, macro F1, and the F1 of the positive class; without one, ``f1`` is the macro F1."""
        predicted, labels, positive = np.asarray(predicted), np.asarray(labels), kept.get("positive_label")
        found = super().compare(predicted, labels, kept)
        if positive is None:
            return {**found, "f1": found["macro_f1"]}
        number = kept["label_names"].index(positive)
        return {**found, "f1": float(f1_score(labels == number, predicted == number, zero_division=0))}

    def details(self, logits, labels, texts, kept):
        """Scores by class, the confusion matrix, the most frequent confusions, and the worst mistakes."""
        names, chances, (predicted, _) = kept["label_names"], scores.softmax(logits), self.choose(logits, labels, kept)
        wrong = Counter(zip(labels[predicted != labels].tolist(), predicted[predicted != labels].tolist()))
        sure = np.where(predicted != labels, chances.max(axis=-1, initial=0), 0)
        return {
            "per_class": scores.per_class(predicted, labels, names),
            "confusion_matrix": confusion_matrix(labels, predicted, labels=range(len(names))).tolist(),
            "confusions": [
                [count, *(names[each] for each in pair)] for pair, count in wrong.most_common(MOST_CONFUSIONS)
            ],
            "mistakes": scores.mistakes(
                scores.worst_rows(sure, texts),
                texts,
                label=[names[number] for number in labels],
                predicted=[names[number] for number in predicted],
                probability=sure.tolist(),
                is_label_doubtful=(sure >= SURE).tolist(),
            ),
        }

    def read_label(self, cell, kept):
        """The number of the class of that name."""
        names, text = kept["label_names"], as_text(cell)
        text = dict(each.split("=", 1) for each in kept.get("label_name", [])).get(text, text)
        return names.index(text) if text in names else None

    def predictions(self, logits, kept, all_probabilities):
        """``label`` and ``probability``, and if wanted a column of probabilities for each class."""
        chances, names = scores.softmax(logits), kept["label_names"]
        columns = {
            "label": [names[number] for number in logits.argmax(axis=-1)],
            "probability": chances.max(axis=-1, initial=0).tolist(),
        }
        return {**columns, **(scores.probabilities(chances, names) if all_probabilities else {})}


TASK = Classification()
