"""Tasks. Each is one file in this folder, named after the task with _ for -, that ends with ``TASK = <a Task>()``."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.scores import decimal, shown_label
from mindnlp_dp_plugin.recipes.words import ENGLISH


class Task(ABC):
    """The contract of a task, for reading, training, scoring and predicting.

    A file of a task imports neither MindSpore nor MindNLP when it is imported: the launcher uses it, too.

    Attributes:
        name: The task's, and that of its recipe.
        shown: Names of the scores that terminal and report show.
        compared: Those of them that are better the higher they are, the one that counts most last.
        best_by: Names of the scores that may choose the epoch to keep, the default first.
    """

    name: str
    shown: tuple[str, ...]
    compared: tuple[str, ...]
    best_by: tuple[str, ...]

    @property
    def main_score(self) -> str:
        """The score that counts most; the higher the better."""
        return self.compared[-1]

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

    @abstractmethod
    def examples(self, tokens: list[list[int]], labels: list) -> tuple[list[list[int]], list[int]]:
        """Tokens, and one of a few classes for each list of them, for the first weights of a model from nothing.

        Args:
            tokens: Of each row of train.
            labels: Of each row.
        """

    @abstractmethod
    def load_model(self, name: str, kept: dict, **how: Any) -> Any:
        """The model to train: a folder's or the hub's, with a head for this task."""

    @abstractmethod
    def loss(self, facts: dict, options: RecipeOptions) -> Callable | None:
        """The loss from logits and labels, a mean over rows; None for the model's own."""

    @abstractmethod
    def compute_metrics(self, facts: dict) -> Callable:
        """The metrics the Trainer computes after each epoch. All ranks must call it."""

    @abstractmethod
    def score(self, logits: np.ndarray, labels: np.ndarray, texts: list[tuple[str, ...]], kept: dict) -> dict:
        """What ``metrics.json`` keeps about one split, with its number of ``rows`` and the worst ``mistakes``."""

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

    @abstractmethod
    def predictions(self, logits: np.ndarray, kept: dict, all_probabilities: bool) -> dict[str, list]:
        """Columns of what is predicted for each row."""

    def in_short(self, row: dict) -> str:
        """What is predicted for a row, for the terminal.

        Args:
            row: The columns of ``predictions`` for it.
        """
        chance = [f"{row['probability']:.3f}"] if "probability" in row else []
        return "  ".join([shown_label(row["label"]), *chance])

    def in_words(self, scores: dict, digits: int = 3) -> str:
        """Scores in a line of English."""
        return ", ".join(f"{ENGLISH[name]} {decimal(scores[name], digits)}" for name in self.shown)


def get_task(name: str) -> Task:
    """The task of that name."""
    return import_module(f"{__name__}.{name.replace('-', '_')}").TASK
