"""Baselines without a neural network: a model that is no better has learned little."""

import warnings
from collections import Counter

import datasets
import numpy as np
from scipy.sparse import hstack
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from mindnlp_dp_plugin.recipes.languages import is_written_without_spaces
from mindnlp_dp_plugin.recipes.splitting import text_columns

MOST_ROWS = 20_000  # of more, a sample is fitted: enough to compare with, and done in seconds
MOST_TERMS = 200_000


def sample(train: datasets.Dataset, seed: int) -> datasets.Dataset:
    """The rows to fit on: all, or of very many some."""
    return train if len(train) <= MOST_ROWS else train.shuffle(seed=seed).select(range(MOST_ROWS))


def predict_baselines(train: datasets.Dataset, scored: datasets.Dataset, seed: int) -> dict[str, np.ndarray]:
    """Fit both baselines on ``train`` and predict the classes of ``scored``.

    Args:
        train: Rows with ``text``, perhaps ``text_pair``, and ``label``.
        scored: The same.
        seed: Fixes the sample that is fitted if there are very many rows.

    Returns:
        ``majority``: always the most frequent class. ``tfidf``: logistic regression on TF-IDF of words and pairs of
        words, or of characters where no spaces part the words.
    """
    train = sample(train, seed)
    most, _ = min(Counter(train["label"]).items(), key=lambda item: (-item[1], item[0]))
    return {"majority": np.full(len(scored), most), "tfidf": _predict_by_terms(train, scored)}


def _predict_by_terms(train, scored):
    fitted, asked = terms(train, scored)
    if fitted is None:
        return np.full(len(scored), train["label"][0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=10, max_iter=300).fit(fitted, train["label"])
    return model.predict(asked)


def terms(train: datasets.Dataset, scored: datasets.Dataset) -> tuple:
    """The terms of all text columns side by side, of both; None if no text has a word."""
    fitted, asked = zip(*(_terms(train[name], scored[name]) for name in text_columns(train)))
    return (hstack(fitted), hstack(asked)) if sum(matrix.shape[1] for matrix in fitted) else (None, None)


def _terms(texts, asked):
    how = {"analyzer": "char"} if is_written_without_spaces(texts) else {"token_pattern": r"(?u)\b\w+\b"}
    least = 2 if len(texts) >= 1000 else 1
    vectorizer = TfidfVectorizer(
        ngram_range=(1, 2), sublinear_tf=True, min_df=least, max_features=MOST_TERMS, dtype=np.float32, **how
    )
    try:
        return vectorizer.fit_transform(texts), vectorizer.transform(asked)
    except ValueError:  # no text has a word
        return np.zeros((len(texts), 0)), np.zeros((len(asked), 0))
