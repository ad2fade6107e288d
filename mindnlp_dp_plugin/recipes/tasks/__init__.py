"""Tasks. Each is one file in this folder, named after the task with _ for -, that ends with ``TASK = <a Task>()``."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.asked import read_asked_texts
from mindnlp_dp_plugin.recipes.models import choose_model
from mindnlp_dp_plugin.recipes.options import MINILM, RecipeOptions
from mindnlp_dp_plugin.recipes.reading.formats import SUFFIXES
from mindnlp_dp_plugin.recipes.reading.table import as_text
from mindnlp_dp_plugin.recipes.scores import decimal, shortened, shown_label
from mindnlp_dp_plugin.recipes.splitting import text_columns
from mindnlp_dp_plugin.recipes.tokens import cut, logits_of
from mindnlp_dp_plugin.recipes.words import words
from mindnlp_dp_plugin.recipes.writing import write_predictions


class Task(ABC):
    """The contract of a task, for reading, training, scoring and predicting.

    A file of a task imports neither MindSpore nor MindNLP when it is imported: the launcher uses it, too.

    Attributes:
        name: The task's, and that of its recipe.
        shown: Names of the scores that terminal and report show.
        compared: Those of them that are compared with baselines, the one that counts most last.
        falling: Those of them that are better the lower they are.
        best_by: Names of the scores that may choose the epoch to keep, the default first.
        scores_before_training: Whether the model before training is a baseline.
        small_models: The models that can be trained from nothing, the default first.
        generates: Whether it writes texts.
        weighs_classes: Whether it can be trained with ``--class-weights``.
        needs: Packages it needs beside those of all recipes.
        label_filling: What the labels of a batch are padded with, if a row has one for each token.
        lora_type: What ``peft`` calls such a task.
        file_suffixes: Of files with its data.
        out_suffixes: Of files it writes predictions to.
        out_name: Such a file, as an example.
    """

    name: str
    shown: tuple[str, ...]
    compared: tuple[str, ...]
    best_by: tuple[str, ...]
    falling: tuple[str, ...] = ()
    scores_before_training: bool = False
    small_models: tuple[str, ...] = ("small-roberta", "small-bert")
    generates: bool = False
    weighs_classes: bool = True
    needs: tuple[str, ...] = ()
    label_filling: int | None = None
    lora_type: str = "SEQ_CLS"
    file_suffixes: tuple[str, ...] = SUFFIXES
    out_suffixes: tuple[str, ...] = (".csv", ".jsonl", ".parquet", ".xlsx")
    out_name: str = "labels.csv"

    @property
    def main_score(self) -> str:
        """The score that counts most."""
        return self.compared[-1]

    def is_worse(self, name: str, score: float, other: float) -> bool:
        """Whether a score of that name is worse than another one."""
        return score > other if name in self.falling else score < other

    def choose_model(self, texts: Iterable[str]) -> tuple[str, dict]:
        """The model to train if none is named, and why, as a remark."""
        return choose_model(texts)

    def known_model(self, language: str) -> str:
        """A pretrained model to advise for texts in ``en`` or ``zh``."""
        return "hfl/chinese-roberta-wwm-ext" if language == "zh" else MINILM

    def fit_tokenizer(self, tokenizer: Any) -> None:
        """Give a tokenizer what this task needs and it may not have."""
        return

    @abstractmethod
    def read(self, options: RecipeOptions) -> Any:
        """The data: ``splits`` (each with a column ``text``, perhaps ``text_pair``, and ``label``), and ``remarks``.

        Raises:
            DataParallelError: If they are no data for this task, or the options do not fit them.
        """

    @abstractmethod
    def facts(self, data: Any, options: RecipeOptions) -> dict:
        """What ranks and report must know of the data, in a form JSON can hold.

        ``num_outputs`` of the model; ``folds``; what ``describe`` says; and what ``kept`` keeps.
        """

    @abstractmethod
    def kept(self, facts: dict) -> dict:
        """What ``metrics.json`` keeps of the facts, and predictions are made with."""

    @abstractmethod
    def describe(self, facts: dict) -> list[str]:
        """Lines about each split."""

    @abstractmethod
    def baselines(self, data: Any, options: RecipeOptions) -> dict:
        """Scores of the baselines, for ``metrics.json``."""

    def baselines_of_tokens(self, tokens: Callable[[str], Any], split: str) -> dict:
        """Scores of baselines that need tokens.

        Args:
            tokens: Gives the columns that ``tokenise`` made of a split.
            split: To score; the last one there is.
        """
        return {}

    @abstractmethod
    def examples(self, tokens: list[list[int]], labels: list) -> tuple[list[list[int]], list[int]] | None:
        """Tokens, and one of a few classes for each list of them, for the first weights of a model from nothing.

        None: these are random.

        Args:
            tokens: Of each row of train.
            labels: Of each row.
        """

    def text_columns(self, rows: Any) -> list[str]:
        """The columns of a split that ``score`` gets as texts."""
        return text_columns(rows)

    def tokenise(self, tokenizer: Any, rows: Any, max_length: int, facts: dict) -> tuple[dict[str, list], int]:
        """The columns a model is trained with, ``labels`` among them, and how many rows had to be cut.

        Args:
            tokenizer: The model's.
            rows: A split.
            max_length: In tokens.
            facts: What ``facts`` found.
        """
        columns, num_cut = cut(tokenizer, [rows[name] for name in text_columns(rows)], max_length)
        return {**columns, "labels": rows["label"]}, num_cut

    def sample(self, texts: tuple, kept: dict) -> list[str]:
        """What the report asks the model for, to show how.

        Args:
            texts: The texts of a row.
            kept: What ``kept`` keeps.
        """
        return [shortened(text) for text in texts]

    @abstractmethod
    def load_model(self, name: str, kept: dict, **how: Any) -> Any:
        """The model to train: a folder's or the hub's, with a head for this task."""

    @abstractmethod
    def loss(self, facts: dict, options: RecipeOptions) -> Callable | None:
        """The loss from logits and labels, a mean over rows; None for the model's own."""

    def outputs(self, logits: Any, labels: Any) -> Any:
        """What evaluation keeps of a batch, for ``compute_metrics`` and ``score``."""
        return logits

    @abstractmethod
    def compute_metrics(self, facts: dict) -> Callable:
        """The metrics the Trainer computes after each epoch. All ranks must call it."""

    @abstractmethod
    def score(self, logits: Any, labels: Any, texts: list[tuple], kept: dict) -> dict:
        """What ``metrics.json`` keeps about one split, with its number of ``rows`` and the worst ``mistakes``.

        Args:
            logits: What ``Trainer.predict`` or ``gather`` returned.
            labels: The same of labels.
            texts: The ``text_columns`` of each row.
            kept: What ``kept`` keeps.
        """

    def always(self, scores: dict, kept: dict) -> str | None:
        """What the model predicts for every row of a split, if it is the same; empty if that is nothing.

        Args:
            scores: What ``score`` found.
            kept: What ``kept`` keeps.
        """
        return None

    @abstractmethod
    def read_label(self, cell: Any, kept: dict) -> Any:
        """The label that a cell of a file holds, as data have it; None if it holds none that the model knows."""

    def asked(self, texts: Sequence[str], results: dict) -> list:
        """Texts of a command line as rows: one text, or the two of a pair.

        Raises:
            DataParallelError: If half a pair is left.
        """
        size = len(results["data"]["text_columns"])
        if len(texts) % size:
            raise DataParallelError(
                "the run was trained on pairs of texts: give two texts for each, not {count}.", count=len(texts)
            )
        return [[as_text(text) for text in texts[row : row + size]] for row in range(0, len(texts), size)]

    def read_asked(self, path: Path, results: dict, columns: tuple, label: str | None, encoding: str | None) -> tuple:
        """What ``read_asked_texts`` returns of a file."""
        return read_asked_texts(self, path, results, columns, label, encoding)

    def as_row(self, text: Any, results: dict) -> tuple:
        """What a program asks for, as a row.

        Raises:
            DataParallelError: If the model was not trained on such.
        """
        row, size = (text,) if isinstance(text, str) else tuple(text), len(results["data"]["text_columns"])
        if len(row) != size:
            raise DataParallelError(
                "the model was trained on pairs of texts, and {row!r} is none."
                if size == 2
                else "the model was trained on single texts, and {row!r} is none.",
                row=row,
            )
        return row

    def inputs(self, tokenizer: Any, rows: list[tuple], max_length: int, kept: dict) -> dict[str, list]:
        """The model's inputs for rows; what is called ``places`` is for ``answer_of_row`` only."""
        return dict(tokenizer(*map(list, zip(*rows)), truncation=True, max_length=max_length))

    def answer(self, model: Any, tokenizer: Any, inputs: list[dict], rows: list[tuple], kept: dict) -> list:
        """The model's answer to each row of a batch, for ``gather``.

        Args:
            model: The trained one.
            tokenizer: Its own.
            inputs: What ``inputs`` made of each row.
            rows: The same rows as ``as_row`` made them.
            kept: What ``kept`` keeps.
        """
        logits = logits_of(model, tokenizer, inputs, kept["settings"]["max_length"])
        return [self.answer_of_row(*each, kept) for each in zip(logits, inputs, rows)]

    def answer_of_row(self, logits: np.ndarray, inputs: dict, row: tuple, kept: dict) -> np.ndarray:
        """What of a row's logits ``gather`` takes; the model may have been given it in a longer batch."""
        return logits

    def gather(self, rows: list, kept: dict) -> Any:
        """Answers or labels of all rows, as ``score`` and ``predictions`` take them."""
        return np.array(rows) if rows else np.zeros((0, len(kept.get("label_names", "1"))))

    @abstractmethod
    def predictions(self, logits: np.ndarray, kept: dict, all_probabilities: bool) -> dict[str, list]:
        """Columns of what is predicted for each row."""

    def in_short(self, row: dict, kept: dict) -> str:
        """What is predicted for a row, for the terminal.

        Args:
            row: The columns of ``predictions`` and ``named_texts`` for it.
            kept: What ``kept`` keeps.
        """
        chance = [f"{row['probability']:.3f}"] if "probability" in row else []
        return "  ".join([shown_label(row["label"]), *chance])

    def named_texts(self, texts: Sequence, kept: dict) -> dict:
        """The columns for a row's texts in a file of predictions."""
        return dict(zip(("text", "text_pair"), texts))

    def text_of(self, row: dict, kept: dict) -> str:
        """The texts of such a row, for the terminal."""
        return " | ".join(row[name] for name in ("text", "text_pair") if name in row)

    def write(self, path: Path, rows: list[dict], kept: dict) -> None:
        """Write predictions, whole or not at all."""
        write_predictions(path, rows, kept.get("label_separator", ";"))

    def in_words(self, scores: dict, digits: int = 3) -> str:
        """Scores in a line."""
        return words()["and"].join(f"{words()[name]} {decimal(scores[name], digits)}" for name in self.shown)


def get_task(name: str) -> Task:
    """The task of that name."""
    return import_module(f"{__name__}.{name.replace('-', '_')}").TASK


def head_for(names: list[str]) -> dict[str, Any]:
    """Keywords of ``from_pretrained`` for an output for each name; a head for others is begun anew."""
    return {
        "num_labels": len(names),
        "id2label": dict(enumerate(names)),
        "label2id": {name: number for number, name in enumerate(names)},
        "ignore_mismatched_sizes": True,
    }
