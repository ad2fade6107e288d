"""A language model without a neural network: how often a token follows another."""

import math
from collections import Counter

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
        self._pairs = Counter(pair for row in rows for pair in zip(row, row[1:]))
        self._firsts = Counter(first for row in rows for first in row[:-1])
        self._singles = Counter(token for row in rows for token in row)
        self._total, self._vocabulary = sum(self._singles.values()), vocabulary

    def probability(self, token: int, before: int) -> float:
        """That ``token`` comes after ``before``."""
        alone = (self._singles[token] + 1) / (self._total + self._vocabulary)
        return (self._pairs[before, token] + UNIGRAM_WEIGHT * alone) / (self._firsts[before] + UNIGRAM_WEIGHT)

    def score(self, rows: list[list[int]], labels: list[list[int]]) -> tuple[float, float]:
        """Of the tokens that have a label: the mean loss, and the share that is the most frequent one there.

        The loss is the negative logarithm of the probability.

        Args:
            rows: Tokens.
            labels: The same, or -100.
        """
        best = {}
        for (before, token), count in self._pairs.items():
            if before not in best or count > self._pairs[before, best[before]]:
                best[before] = token
        asked = [
            (before, token)
            for row, wanted in zip(rows, labels)
            for before, token, label in zip(row, row[1:], wanted[1:])
            if label != IGNORED
        ]
        if not asked:
            return 0.0, 0.0
        losses = [-math.log(self.probability(token, before)) for before, token in asked]
        return sum(losses) / len(asked), sum(best.get(before) == token for before, token in asked) / len(asked)
