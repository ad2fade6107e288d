"""Texts, or pairs of texts, into any number of classes each: topics, emotions."""

import ast
import json
from dataclasses import dataclass

import click
import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.baselines import sample, terms
from mindnlp_dp_plugin.recipes.options import RecipeOptions, option
from mindnlp_dp_plugin.recipes.reading.table import as_text, could_be_label
from mindnlp_dp_plugin.recipes.scores import each_text_once, listed, mistake, per_class, probabilities
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, alike, in_order, read_rows, to_dataset, unseen
from mindnlp_dp_plugin.recipes.tasks import Task
from mindnlp_dp_plugin.recipes.words import remark, words

SEPARATORS = (";", "|", ",", "；", "、", "，")
NO_CLASS = "–"


@dataclass(frozen=True)
class Options(RecipeOptions):
    """Those of all recipes, and how classes stand in a cell and are chosen."""

    label_separator: str | None = option(
        None,
        "What stands between the classes of a cell. Default: the first of ; | , that is in the label column.",
    )
    threshold: float | None = option(
        None,
        "Classes at least as probable as this are chosen. Default: 0.5.",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
    )

    @property
    def chosen_threshold(self) -> float:
        """The threshold, unless the user set it."""
        return 0.5 if self.threshold is None else self.threshold


class MultiLabel(Task):
    """Any number of classes for each text."""

    name = "multi-label"
    options = Options
    distribution = Message("Rows with each class in train")
    words = {
        "micro_f1": Message("micro F1"),
        "exact_match": Message("exact match"),
        "tfidf_one_vs_rest": Message("TF-IDF + one logistic regression for each class"),
        "per_row": Message("{mean} classes a row; rows without a class: {none}"),
        "chosen_from": Message("A class is chosen from a probability of {threshold} on."),
        "labels_separated": Message("the classes of a cell are separated by {by!r}"),
    }
    shown = ("micro_f1", "macro_f1", "exact_match")
    each_epoch = (*shown, "loss")
    compared = ("exact_match", "macro_f1", "micro_f1")
    best_by = ("micro_f1", "macro_f1", "exact_match", "loss")
    kept_facts = ("label_names", "threshold", "label_separator")
    refused = {"positive_label": None}
    refusal = Message(
        "--{option} {given!r} is for one of two classes, and each text has any number of them: leave it out; the F1 of "
        "each class is reported."
    )

    def read(self, options):
        """Texts and a 1 or 0 for each class in splits; with ``--folds``, dev is part of train."""
        self.refuse(options)
        found = read_rows(options, _could_be_labels, _parse)
        separator = self._find_separator(found, options.label_separator)
        if separator:
            found.remarks.append(remark("labels_separated", by=separator))
        sets = {split: [_names(label, separator) for *_, label in rows] for split, rows in found.splits.items()}
        # Test sets are often published without labels.
        sets = {split: rows for split, rows in sets.items() if split == "train" or any(rows)}
        names = _class_names(sets["train"], found.columns.label)
        found.remarks.extend(alike(names))
        splits = {split: to_dataset(found.splits[split], _numbered(found, split, sets[split], names)) for split in sets}
        return LabelledTexts(splits, names, found.remarks, found.columns).with_dev(self.strata, options)

    def strata(self, rows):
        """Of each row the rarest of its classes: a split by it leaves no class out of train."""
        labels = np.array(rows["label"]) > 0
        counts = labels.sum(axis=0)
        return [int(min(np.flatnonzero(row), key=lambda each: counts[each], default=len(row))) for row in labels]

    def _find_separator(self, found, named):
        """What stands between the classes of a cell; None if cells hold lists."""
        labels = [label for rows in found.splits.values() for *_, label in rows]
        cells = [label for label in labels if isinstance(label, str)]
        if named is not None:
            if not any(named in cell for cell in cells):
                raise DataParallelError(
                    "--label-separator {named!r} is in no cell of label column {column!r} (for example {example!r}): "
                    "give another, or leave it out.",
                    named=named,
                    column=found.columns.label,
                    example=labels[0],
                )
            return named
        separator = next((each for each in SEPARATORS if any(each in cell for cell in cells)), None)
        if separator is None and all(isinstance(label, str) or len(label) < 2 for label in labels):
            raise DataParallelError(
                "label column {column!r} holds at most one class in each row (for example {example!r}): train them "
                "with `mindnlp-dp recipe classification`, or name the --label-separator.",
                column=found.columns.label,
                example=labels[0],
            )
        return separator

    def facts(self, data: LabelledTexts, options):
        """Classes, the threshold, and rows with each class in each split."""
        counts = {split: np.array(rows["label"]) for split, rows in data.splits.items()}
        separator = next((each["by"] for each in data.remarks if each["kind"] == "labels_separated"), None)
        return {
            "label_names": data.label_names,
            "num_outputs": len(data.label_names),
            "threshold": options.chosen_threshold,
            "label_separator": separator
            or next((each for each in SEPARATORS if not any(each in name for name in data.label_names)), "\t"),
            "rows": {
                split: dict(zip(data.label_names, labels.sum(axis=0).astype(int).tolist()))
                for split, labels in counts.items()
            },
            "classes_per_row": {split: float(labels.sum(axis=1).mean()) for split, labels in counts.items()},
            "rows_without_class": {split: int((labels.sum(axis=1) == 0).sum()) for split, labels in counts.items()},
        }

    def describe(self, facts):
        """Rows with each class."""
        lines = []
        for split, rows in facts["rows"].items():
            per_row = words()["per_row"].format(
                mean=f"{facts['classes_per_row'][split]:.2f}", none=facts["rows_without_class"][split]
            )
            lines.append(
                tr(
                    "{split}: {rows} rows, {count} classes: {classes}; {per_row}",
                    split=split,
                    rows=facts["num_rows"][split],
                    count=len(rows),
                    classes=listed(rows),
                    per_row=per_row,
                )
            )
        return lines

    def predict_baselines(self, train, scored, data, options):
        """The most frequent class, and for each class a logistic regression on TF-IDF: rows of bools."""
        train = sample(train, options.seed)
        labels = np.array(train["label"]) > 0
        majority = np.zeros((len(scored), labels.shape[1]), bool)
        majority[:, labels.sum(axis=0).argmax()] = True
        chances = np.tile(labels.mean(axis=0), (len(scored), 1))
        fitted, asked = terms(train, scored)
        for number, column in enumerate(labels.T) if fitted is not None else ():
            if 0 < column.sum() < len(column):  # else all rows of train are the same
                model = LogisticRegression(C=10, solver="liblinear", random_state=options.seed).fit(fitted, column)
                chances[:, number] = model.predict_proba(asked)[:, 1]
        return {"majority": majority, "tfidf_one_vs_rest": chances >= options.chosen_threshold}

    def score_baseline(self, predicted, labels, data):
        """What ``score_sets`` computes."""
        return score_sets(np.array(predicted), np.array(labels) > 0)

    def examples(self, tokens, labels):
        """Each row once for each of its classes; those without one are a class of their own."""
        pairs = [
            (row, number)
            for row, classes in zip(tokens, np.array(labels) > 0)
            for number in (np.flatnonzero(classes).tolist() or [len(classes)])
        ]
        rows, classes = zip(*pairs)
        return list(rows), list(classes)

    def head(self, kept):
        """An output for each class, any number of which may be chosen."""
        return {"problem_type": "multi_label_classification", **super().head(kept)}

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

    def scores_of(self, logits, labels, kept):
        """What ``score_sets`` computes."""
        return score_sets(_choose(logits, kept), labels > 0)

    def score(self, logits, labels, texts, kept):
        """Scores over all and by class, and the worst mistakes."""
        labels, names = np.asarray(labels) > 0, kept["label_names"]
        chosen, chances = _choose(logits, kept), expit(np.asarray(logits, np.float64))
        wrong_by = np.where(chosen != labels, np.abs(chances - kept["threshold"]), 0).sum(axis=1)
        worst = [row for row in np.argsort(-wrong_by, kind="stable").tolist() if wrong_by[row] > 0]
        return {
            **score_sets(chosen, labels),
            "rows": len(labels),
            "per_class": per_class(chosen, labels, names, chosen.sum(axis=0)),
            "mistakes": [
                mistake(texts[row], _in_words(labels[row], names), _in_words(chosen[row], names))
                for row in each_text_once(worst, texts)
            ],
        }

    def always(self, scores, kept):
        """The classes that are chosen for all rows; an empty text if none ever is."""
        counts = [each["predicted"] for each in scores["per_class"]]
        if any(0 < count < scores["rows"] for count in counts):
            return None
        return ", ".join(name for name, count in zip(kept["label_names"], counts) if count)

    def read_label(self, cell, kept):
        """A 1 or 0 for each class; None if there are classes that the model does not know."""
        try:
            found = _parse(cell)
        except ValueError:
            return None
        names = None if found is None else _names(found, kept["label_separator"])
        if names is None or not set(names) <= set(kept["label_names"]):
            return None
        return [float(name in names) for name in kept["label_names"]]

    def predictions(self, logits, kept, all_probabilities):
        """``labels`` and their ``probabilities``, and if wanted a column of probabilities for each class."""
        names, chances, chosen = kept["label_names"], expit(np.asarray(logits, np.float64)), _choose(logits, kept)
        columns = {
            "labels": [[names[number] for number in np.flatnonzero(row)] for row in chosen],
            "probabilities": [chances[number, row].tolist() for number, row in enumerate(chosen)],
        }
        if all_probabilities:
            columns |= probabilities(chances, names)
        return columns

    def in_short(self, row, kept):
        """Each class with its probability."""
        parts = [f"{label} {chance:.3f}" for label, chance in zip(row["labels"], row["probabilities"])]
        return ", ".join(parts) or NO_CLASS


def score_sets(chosen: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """``micro_f1``, ``macro_f1`` over the classes that occur or are chosen, and ``exact_match``.

    Args:
        chosen: Of shape (rows, classes), bool.
        labels: The true ones, of the same shape.
    """
    occurring = np.flatnonzero(chosen.any(axis=0) | labels.any(axis=0))
    micro, macro = (
        f1_score(labels, chosen, labels=occurring, average=average) if occurring.size else 0.0
        for average in ("micro", "macro")
    )
    return {
        "micro_f1": float(micro),
        "macro_f1": float(macro),
        "exact_match": float(accuracy_score(labels, chosen)),
    }


def _choose(logits, kept):
    return expit(np.asarray(logits, np.float64)) >= kept["threshold"]


def _parse(cell):
    """The labels of a cell: a list of names, or a text with any number of them; None if the cell is missing."""
    if isinstance(cell, str) and cell.strip().startswith("[") and cell.strip().endswith("]"):
        try:
            cell = json.loads(cell)
        except ValueError:
            try:
                cell = ast.literal_eval(cell.strip())
            except (ValueError, SyntaxError):
                raise ValueError(tr('it is no list; write ["a", "b"], or a;b')) from None
    is_list = isinstance(cell, (list, tuple))
    if isinstance(cell, dict) or is_list and any(isinstance(part, (dict, list)) for part in cell):
        raise ValueError(tr('a label is a text or a number, and a row has a list of them, such as ["a", "b"]'))
    if is_list:
        return [text for text in map(as_text, cell) if text]
    return None if cell is None or cell != cell else as_text(cell) or []


def _names(label, separator):
    """The classes of a row, each once."""
    parts = label.split(separator) if isinstance(label, str) and separator else [label] * isinstance(label, str)
    return list(dict.fromkeys(filter(None, map(str.strip, label if isinstance(label, list) else parts))))


def _could_be_labels(values):
    """Whether a column could be the labels: lists, or cells with separators whose parts come again and again."""
    if any(isinstance(value, (list, tuple)) for value in values):
        return True
    texts = list(filter(None, map(as_text, values)))
    separator = next((each for each in SEPARATORS if any(each in text for text in texts)), None)
    return could_be_label([part for text in texts for part in _names(text, separator)])


def _class_names(rows, column):
    """The classes of train in the order of their names, or of their numbers if they are numbers."""
    distinct = {name for names in rows for name in names}
    if len(distinct) < 2:
        raise DataParallelError(
            "label column {column!r} holds {count} classes in all: there is nothing to choose among.",
            column=column,
            count=len(distinct),
        )
    if len(distinct) > max(2, sum(map(len, rows)) // 2):
        raise DataParallelError(
            "label column {column!r} holds {count} different labels in {num_rows} rows, most of them once: choose "
            "another --label-column or --label-separator.",
            column=column,
            count=len(distinct),
            num_rows=len(rows),
        )
    return in_order(distinct)


def _numbered(found, split, sets, names):
    for row, classes in enumerate(sets):
        if unknown := [name for name in classes if name not in names]:
            raise unseen(unknown[0], found.place(split, row), split, names)
    return [[float(name in classes) for name in names] for classes in map(set, sets)]


def _in_words(row, names):
    return ", ".join(names[number] for number in np.flatnonzero(row)) or NO_CLASS


TASK = MultiLabel()
