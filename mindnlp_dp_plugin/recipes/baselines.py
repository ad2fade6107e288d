"""Baselines without a neural network: a model that is no better has learned little."""

import warnings
from typing import Any

import datasets
import numpy as np
from scipy.sparse import csr_matrix
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from mindnlp_dp_plugin.recipes.languages import is_written_without_spaces
from mindnlp_dp_plugin.recipes.splitting import text_columns
from mindnlp_dp_plugin.recipes.tokens import IGNORED

MOST_ROWS = 20_000  # of more, a sample is fitted: enough to compare with, and done in seconds
MOST_TERMS = 200_000
UNIGRAM_WEIGHT = 4.0  # of how many seen bigrams the frequency of the token alone is worth


def predict_baselines(
    models: dict[str, Any], train: datasets.Dataset, scored: datasets.Dataset, seed: int
) -> dict[str, np.ndarray]:
    """Fit models on the terms of ``train``, and ask them for ``scored``.

    Args:
        models: scikit-learn's, by name; the first asks nothing of the texts, and answers for those that find no word.
        train: Rows with ``text``, perhaps ``text_pair``, and ``label``.
        scored: The same.
        seed: Fixes the sample that is fitted if there are very many rows.

    Returns:
        The answers of each; of one for several labels their probabilities. Terms are TF-IDF of words and pairs of
        words, or of characters where no spaces part the words.
    """
    if len(train) > MOST_ROWS:
        train = train.shuffle(seed=seed).select(range(MOST_ROWS))
    names, labels, found = text_columns(train), np.array(train["label"]), {}
    fitted, asked = (rows.select_columns(names).to_pandas() for rows in (train, scored))
    for name, model in models.items():
        terms = ColumnTransformer([(column, _terms(train[column]), column) for column in names])
        steps = make_pipeline(terms, model) if found else model
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a regression that has not converged, and classes in all rows or none
            try:
                steps.fit(fitted, labels)
                found[name] = steps.predict_proba(asked) if labels.ndim > 1 and found else steps.predict(asked)
            except ValueError:  # no text has a word
                found[name] = next(iter(found.values()))
    return found


def _terms(texts):
    how = {"analyzer": "char"} if is_written_without_spaces(texts) else {"token_pattern": r"(?u)\b\w+\b"}
    least = 2 if len(texts) >= 1000 else 1
    return TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True, min_df=least, max_features=MOST_TERMS, dtype=np.float32, **how
    )


class Bigrams:
    """A language model that has counted tokens and pairs of tokens.

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
        """Of the tokens whose label is not -100: the mean negative logarithm of the probability, and the share that is
        the most frequent one there.
        """
        before, token = (each[_pairs(labels)[1] != IGNORED] for each in _pairs(rows))
        best = np.where(self._firsts > 0, np.asarray(self._pairs.argmax(axis=1)).reshape(-1), -1)
        return float(-np.log(self.probability(token, before)).mean()), float((best[before] == token).mean())


def _pairs(rows):
    """Each token but the last of its row, and those after them."""
    return tuple(np.concatenate([np.asarray(row[part], int) for row in rows]) for part in (slice(-1), slice(1, None)))
