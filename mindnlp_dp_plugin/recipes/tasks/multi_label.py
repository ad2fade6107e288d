"""Texts, or pairs of texts, into any number of classes each: topics, emotions."""

import ast
import json

import numpy as np

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.recipes.baselines import predict_sets
from mindnlp_dp_plugin.recipes.reading.table import as_text, could_be_label, is_number
from mindnlp_dp_plugin.recipes.scores import MOST_MISTAKES, each_text_once, shortened
from mindnlp_dp_plugin.recipes.splitting import fold_rows, split_off_dev
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, alike, in_order, read_rows, to_dataset, unseen
from mindnlp_dp_plugin.recipes.tasks import Task, head_for
from mindnlp_dp_plugin.recipes.words import remark, words

SEPARATORS = (";", "|", ",", "；", "、", "，")
MOST_CLASSES_LISTED = 12
NO_CLASS = "–"


class MultiLabel(Task):
    """Any number of classes for each text."""

    name = "multi-label"
    shown = ("micro_f1", "macro_f1", "exact_match")
    compared = ("exact_match", "macro_f1", "micro_f1")
    best_by = ("micro_f1", "macro_f1", "exact_match", "loss")

    def read(self, options):
        """Texts and a 1 or 0 for each class in splits; with ``--folds``, dev is part of train."""
        if options.positive_label is not None:
            raise DataParallelError(
                "--positive-label {positive_label!r} is for one of two classes, and each text has any number of them: "
                "leave it out; the F1 of each class is reported.",
                positive_label=options.positive_label,
            )
        named = (options.text_column, options.label_column, options.encoding)
        found = read_rows(options.dataset, *named, _could_be_labels, _parse)
        separator = self._find_separator(found, options.label_separator)
        if separator:
            found.remarks.append(remark("labels_separated", by=separator))
        sets = {split: [_names(label, separator) for *_, label in rows] for split, rows in found.splits.items()}
        sets = {split: of for split, of in sets.items() if split == "train" or any(of)}  # published without labels
        names = _class_names(sets["train"], found.columns.label)
        found.remarks.extend(alike(names))
        splits = {split: to_dataset(found.splits[split], _numbered(found, split, sets[split], names)) for split in sets}
        if "dev" not in splits:
            train = splits["train"]
            splits["train"], splits["dev"], _ = split_off_dev(train, _rarest(train["label"]), options.seed)
            found.remarks.append(remark("dev_split_off", rows=len(splits["dev"])))
        data = LabelledTexts(in_order(splits), names, found.remarks, found.columns)
        return data.with_dev_in_train() if options.folds else data

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
        train = data.splits["train"]
        counts = {split: np.array(rows["label"]) for split, rows in data.splits.items()}
        separator = next((each["by"] for each in data.remarks if each["kind"] == "labels_separated"), None)
        return {
            "label_names": data.label_names,
            "num_outputs": len(data.label_names),
            "threshold": options.chosen_threshold,
            "label_separator": separator
            or next((each for each in SEPARATORS if not any(each in name for name in data.label_names)), "\t"),
            "rows": {
                split: dict(zip(data.label_names, of.sum(axis=0).astype(int).tolist())) for split, of in counts.items()
            },
            "classes_per_row": {split: float(of.sum(axis=1).mean()) for split, of in counts.items()},
            "rows_without_class": {split: int((of.sum(axis=1) == 0).sum()) for split, of in counts.items()},
            "folds": _folds(train, options) if options.folds else None,
        }

    def kept(self, facts):
        """The classes, the threshold, and what separates classes in a cell."""
        return {name: facts[name] for name in ("label_names", "threshold", "label_separator")}

    def describe(self, facts):
        """Rows with each class."""
        lines = []
        for split, rows in facts["rows"].items():
            listed = ", ".join(f"{label} ({count})" for label, count in list(rows.items())[:MOST_CLASSES_LISTED])
            more = ", ..." if len(rows) > MOST_CLASSES_LISTED else ""
            per_row = words()["per_row"].format(
                mean=f"{facts['classes_per_row'][split]:.2f}", none=facts["rows_without_class"][split]
            )
            lines.append(
                tr(
                    "{split}: {rows} rows, {count} classes: {classes}; {per_row}",
                    split=split,
                    rows=facts["num_rows"][split],
                    count=len(rows),
                    classes=listed + more,
                    per_row=per_row,
                )
            )
        return lines

    def baselines(self, data: LabelledTexts, options):
        """The most frequent class, and TF-IDF with a regression for each: on test, else dev, or fold by fold."""
        train, how = data.splits["train"], (options.seed, options.chosen_threshold)
        if options.folds:
            split, labels, found, everything = "dev", np.array(train["label"]) > 0, {}, set(range(len(train)))
            for rows in _folds(train, options):
                rest = train.select(sorted(everything - set(rows)))
                for name, chosen in predict_sets(rest, train.select(rows), *how).items():
                    found.setdefault(name, np.zeros_like(labels))[rows] = chosen
        else:
            split = list(data.splits)[-1]
            labels = np.array(data.splits[split]["label"]) > 0
            found = predict_sets(train, data.splits[split], *how)
        return {name: {**score_sets(chosen, labels), "split": split} for name, chosen in found.items()}

    def examples(self, tokens, labels):
        """Each row once for each of its classes; those without one are a class of their own."""
        pairs = [
            (row, number)
            for row, of in zip(tokens, np.array(labels) > 0)
            for number in (np.flatnonzero(of).tolist() or [len(of)])
        ]
        rows, classes = zip(*pairs)
        return list(rows), list(classes)

    def load_model(self, name, kept, **how):
        """A model with an output for each class; a head for another number of classes is begun anew."""
        from mindnlp.transformers import AutoModelForSequenceClassification

        return AutoModelForSequenceClassification.from_pretrained(
            name, problem_type="multi_label_classification", **head_for(kept["label_names"]), **how
        )

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

    def compute_metrics(self, facts):
        """What ``score_sets`` computes."""
        return lambda prediction: score_sets(_choose(prediction.predictions, facts), prediction.label_ids > 0)

    def score(self, logits, labels, texts, kept):
        """Scores over all and by class, and the worst mistakes."""
        labels, names = np.asarray(labels) > 0, kept["label_names"]
        chosen, chances = _choose(logits, kept), sigmoid(logits)
        right = (chosen & labels).sum(axis=0)
        per_class = [
            {
                "label": name,
                "precision": float(right[number] / max(1, chosen[:, number].sum())),
                "recall": float(right[number] / max(1, labels[:, number].sum())),
                "f1": float(2 * right[number] / max(1, chosen[:, number].sum() + labels[:, number].sum())),
                "rows": int(labels[:, number].sum()),
                "predicted": int(chosen[:, number].sum()),
            }
            for number, name in enumerate(names)
        ]
        wrong_by = np.where(chosen != labels, np.abs(chances - kept["threshold"]), 0).sum(axis=1)
        worst = [row for row in np.argsort(-wrong_by, kind="stable").tolist() if wrong_by[row] > 0]
        mistakes = [
            {
                "texts": [shortened(text) for text in texts[row]],
                "label": _in_words(labels[row], names),
                "predicted": _in_words(chosen[row], names),
            }
            for row in each_text_once(worst, texts)[:MOST_MISTAKES]
        ]
        return {**score_sets(chosen, labels), "rows": len(labels), "per_class": per_class, "mistakes": mistakes}

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
        names, chances, chosen = kept["label_names"], sigmoid(logits), _choose(logits, kept)
        columns = {
            "labels": [[names[number] for number in np.flatnonzero(of)] for of in chosen],
            "probabilities": [chances[row, of].tolist() for row, of in enumerate(chosen)],
        }
        if all_probabilities:
            columns |= {f"probability_{name}": chances[:, number].tolist() for number, name in enumerate(names)}
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
    right, sizes = (chosen & labels).sum(axis=0), chosen.sum(axis=0) + labels.sum(axis=0)
    occurring = sizes > 0
    return {
        "micro_f1": float(2 * right.sum() / max(1, sizes.sum())),
        "macro_f1": float((2 * right[occurring] / sizes[occurring]).mean()) if occurring.any() else 0.0,
        "exact_match": float((chosen == labels).all(axis=1).mean()),
    }


def sigmoid(logits: np.ndarray) -> np.ndarray:
    """The probability of each class, float64."""
    return 0.5 * (1 + np.tanh(0.5 * logits.astype(np.float64)))


def _choose(logits, kept):
    return sigmoid(logits) >= kept["threshold"]


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
    if isinstance(cell, dict) or isinstance(cell, (list, tuple)) and any(isinstance(of, (dict, list)) for of in cell):
        raise ValueError(tr('a label is a text or a number, and a row has a list of them, such as ["a", "b"]'))
    if isinstance(cell, (list, tuple)):
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
    return sorted(distinct, key=float) if all(map(is_number, distinct)) else sorted(distinct)


def _numbered(found, split, sets, names):
    for row, of in enumerate(sets):
        if unknown := [name for name in of if name not in names]:
            raise unseen(unknown[0], found.place(split, row), split, names)
    return [[float(name in of) for name in names] for of in map(set, sets)]


def _rarest(labels):
    """Of each row the rarest of its classes: a split by it leaves no class out of train."""
    labels = np.array(labels) > 0
    counts = labels.sum(axis=0)
    return [int(min(np.flatnonzero(of), key=lambda number: counts[number], default=len(of))) for of in labels]


def _folds(train, options):
    return fold_rows(train, _rarest(train["label"]), options.folds, options.seed)


def _in_words(of, names):
    return ", ".join(names[number] for number in np.flatnonzero(of)) or NO_CLASS


TASK = MultiLabel()
