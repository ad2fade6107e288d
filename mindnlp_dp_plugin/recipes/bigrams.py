"""A language model without a neural network: how often a token follows another."""

import numpy as np
from scipy.sparse import csr_matrix

from mindnlp_dp_plugin.recipes.tokens import IGNORED

UNIGRAM_WEIGHT = 4.0  # of how many seen bigrams the frequency of the token alone is worth


class Bigrams:
    """Counts of tokens and of pairs of tokens.

    The probability of a token is that after the token before it, mixed with its frequency, which is mixed with an even
    distribution over the vocabulary, both by how much was seen.

    Args:
        rows: The tokens of the training rows.
        vocabulary: Number of tokens there are.
    """

    def __init__(self, rows: list[list[int]], vocabulary: int):
        firsts, seconds = _pairs(rows)
        self._pairs = csr_matrix((np.ones(len(firsts)), (firsts, seconds)), shape=(vocabulary, vocabulary))
        self._firsts = np.bincount(firsts, minlength=vocabulary)
        singles = np.bincount(np.concatenate([np.asarray(row, int) for row in rows]), minlength=vocabulary)
        self._alone = (singles + 1) / (singles.sum() + vocabulary)

    def probability(self, token: np.ndarray, before: np.ndarray) -> np.ndarray:
        """That each ``token`` comes after the one ``before`` it."""
        seen = np.asarray(self._pairs[before, token]).reshape(-1)
        return (seen + UNIGRAM_WEIGHT * self._alone[token]) / (self._firsts[before] + UNIGRAM_WEIGHT)

    def score(self, rows: list[list[int]], labels: list[list[int]]) -> tuple[float, float]:
        """Of the tokens that have a label: the mean loss, and the share that is the most frequent one there.

        The loss is the negative logarithm of the probability.

        Args:
            rows: Tokens.
            labels: The same, or -100.
        """
        before, token = (each[_pairs(labels)[1] != IGNORED] for each in _pairs(rows))
        if not len(token):
            return 0.0, 0.0
        best = np.where(self._firsts > 0, np.asarray(self._pairs.argmax(axis=1)).reshape(-1), -1)
        return float(-np.log(self.probability(token, before)).mean()), float((best[before] == token).mean())


def _pairs(rows):
    """Each token but the last of its row, and those after them."""
    return tuple(np.concatenate([np.asarray(row[part], int) for row in rows]) for part in (slice(-1), slice(1, None)))
