"""Tasks. Each is one file in this folder, named after the task, that ends with ``TASK = <a Task>()``."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from mindnlp_dp_plugin.recipes.options import ClassificationOptions


class Task(ABC):
    """The contract of a task, for reading, training, scoring and predicting.

    A file of a task imports neither MindSpore nor MindNLP when it is imported: the launcher uses it, too.
    """

    name: str

    @abstractmethod
    def read(self, options: ClassificationOptions) -> Any:
        """The data: ``splits`` (each with a column ``text``, perhaps ``text_pair``, and ``label``), and ``remarks``.

        Raises:
            DataParallelError: If they are no data for this task, or the options do not fit them.
        """

    @abstractmethod
    def facts(self, data: Any, options: ClassificationOptions) -> dict:
        """What ranks, report and predictions must know of the data, in a form JSON can hold."""

    @abstractmethod
    def baselines(self, data: Any, options: ClassificationOptions) -> dict:
        """Scores of the baselines, for ``metrics.json``."""

    @abstractmethod
    def load_model(self, name: str, facts: dict, **how: Any) -> Any:
        """The model to train: a folder's or the hub's, with a head for this task."""

    @abstractmethod
    def loss(self, facts: dict, options: ClassificationOptions) -> Callable | None:
        """The loss from logits and labels, a mean over rows; None for the model's own."""

    @abstractmethod
    def compute_metrics(self, facts: dict) -> Callable:
        """The metrics the Trainer computes after each epoch. All ranks must call it."""

    @abstractmethod
    def score(self, logits: np.ndarray, labels: np.ndarray, texts: list[tuple[str, ...]], facts: dict) -> dict:
        """Everything about one split that ``metrics.json`` keeps, with the worst mistakes."""

    @abstractmethod
    def predictions(self, logits: np.ndarray, facts: dict, all_probabilities: bool) -> dict[str, list]:
        """Columns of what is predicted for each row."""


def get_task(name: str) -> Task:
    """The task of that name."""
    return import_module(f"{__name__}.{name}").TASK
