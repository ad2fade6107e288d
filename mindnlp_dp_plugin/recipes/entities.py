"""Entities in tagged sentences, and their scores, as ``conlleval`` and seqeval define them."""

from collections import Counter
from collections.abc import Iterable

import numpy as np
from seqeval.metrics import sequence_labeling as seqeval

OUTSIDE = "O"
NO_ENTITY = "–"
# seqeval knows BIOES; these are the letters of BILOU and BMES for the same.
OTHER_LETTERS = {"L": "E", "U": "S", "M": "I"}


def entity_type(tag: str) -> str | None:
    """The type of entity a tag says; None for O."""
    return None if tag == OUTSIDE else tag.split("-", 1)[1]


def types_of(tags: list[str]) -> list[str]:
    """The types of entities that tags say, in order."""
    return sorted({entity_type(tag) for tag in tags} - {None})


def entities(tags: list[str]) -> list[tuple[str, int, int]]:
    """The entities of a sentence: type, first and last word. As ``conlleval`` finds them, by seqeval."""
    return seqeval.get_entities(_as_bioes(tags))


def count_types(sentences: list[list[int]], names: list[str]) -> dict[str, int]:
    """How many entities of each type there are in sentences whose tags are numbers; ``names`` are all tags."""
    found = Counter(kind for tags in sentences for kind, *_ in entities([names[tag] for tag in tags]))
    return {kind: found[kind] for kind in types_of(names)}


def named(sentences: Iterable, names: list[str]) -> list[list[str]]:
    """The tags of sentences by their numbers."""
    return [[names[tag] for tag in tags] for tags in sentences]


class Compared:
    """Predicted tags beside the true ones. An entity is right if its type, its first and its last word are.

    Args:
        predicted: For each sentence the tag of each word.
        true: The same.
    """

    def __init__(self, predicted: list[list[str]], true: list[list[str]]):
        self._both = [list(map(_as_bioes, sentences)) for sentences in (true, predicted)]
        self._pairs = [[set(map(tuple, entities(tags))) for tags in pair] for pair in zip(true, predicted)]

    def scores(self) -> dict[str, float]:
        """``precision``, ``recall`` and ``f1`` of entities, ``accuracy`` of words, and how many are ``predicted``."""
        found = seqeval.precision_recall_fscore_support(*self._both, average="micro", zero_division=0)
        return {
            **{name: float(score) for name, score in zip(("precision", "recall", "f1"), found)},
            "accuracy": float(seqeval.accuracy_score(*self._both)),
            "predicted": sum(len(predicted) for _, predicted in self._pairs),
        }

    def types(self, names: list[str]) -> list[dict]:
        """Precision, recall and F1 of each type in the tags ``names``, and how many entities there are, as ``rows``."""
        occurring = any(map(any, self._pairs))
        found = seqeval.classification_report(*self._both, output_dict=True, zero_division=0) if occurring else {}
        none = {"precision": 0.0, "recall": 0.0, "f1-score": 0.0, "support": 0}
        kept = {"precision": "precision", "recall": "recall", "f1": "f1-score"}
        return [
            {"label": kind, **{name: float(of[theirs]) for name, theirs in kept.items()}, "rows": int(of["support"])}
            for kind, of in ((kind, found.get(kind, none)) for kind in types_of(names))
        ]

    def error(self, resamples: int) -> float:
        """The deviation of F1 over sentences that are drawn again so often."""
        counts = np.array([(2 * len(true & predicted), len(true) + len(predicted)) for true, predicted in self._pairs])
        draws = np.random.default_rng(0).integers(len(counts), size=(resamples, len(counts)))
        right, both = counts[draws].sum(axis=1).T
        return float(np.std(right / np.maximum(both, 1)))

    def worst(self, sure: list[float]) -> list[int]:
        """The sentences with the most entities that are missed or too many, of equals the surest."""
        wrong = [len(true ^ predicted) for true, predicted in self._pairs]
        return sorted((row for row, count in enumerate(wrong) if count), key=lambda row: (-wrong[row], -sure[row]))


def in_words(words: list[str], tags: list[str], joiner: str) -> str:
    """The entities of a sentence with their types."""
    found = [f"{kind} {joiner.join(words[first : last + 1])}" for kind, first, last in entities(tags)]
    return "; ".join(found) or NO_ENTITY


def _as_bioes(tags):
    return [OTHER_LETTERS.get(tag[0], tag[0]) + tag[1:] for tag in tags]
