"""Baselines without a neural network: a model that is no better has learned little."""

import warnings
from collections import Counter, defaultdict

import datasets
import numpy as np
from scipy.sparse import hstack
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, f1_score

from mindnlp_dp_plugin.recipes.languages import is_written_without_spaces
from mindnlp_dp_plugin.recipes.splitting import text_columns

MOST_ROWS = 20_000  # of more, a sample is fitted: enough to compare with, and done in seconds
MOST_TERMS = 200_000


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
    if len(train) > MOST_ROWS:
        train = train.shuffle(seed=seed).select(range(MOST_ROWS))
    most, _ = min(Counter(train["label"]).items(), key=lambda item: (-item[1], item[0]))
    return {"majority": np.full(len(scored), most), "tfidf": _predict_by_terms(train, scored)}


def predict_sets(train: datasets.Dataset, scored: datasets.Dataset, seed: int, threshold: float) -> dict:
    """Fit both baselines on ``train`` and choose classes for ``scored``.

    Args:
        train: Rows with ``text``, perhaps ``text_pair``, and ``label``: 1 for each class a row has, 0 for the others.
        scored: The same.
        seed: Fixes the sample that is fitted if there are very many rows.
        threshold: The probability from which on a class is chosen.

    Returns:
        ``majority``: always the most frequent class. ``tfidf_one_vs_rest``: for each class a logistic regression on
        TF-IDF, as ``predict_baselines`` takes it. Both of shape (rows, classes), bool.
    """
    if len(train) > MOST_ROWS:
        train = train.shuffle(seed=seed).select(range(MOST_ROWS))
    labels = np.array(train["label"]) > 0
    majority = np.zeros((len(scored), labels.shape[1]), bool)
    majority[:, labels.sum(axis=0).argmax()] = True
    shares = np.tile(labels.mean(axis=0), (len(scored), 1))
    fitted, asked = _all_terms(train, scored)
    for number, column in enumerate(labels.T) if fitted is not None else ():
        if 0 < column.sum() < len(column):  # else all rows of train are the same
            model = LogisticRegression(C=10, solver="liblinear", random_state=seed).fit(fitted, column)
            shares[:, number] = model.predict_proba(asked)[:, 1]
    return {"majority": majority, "tfidf_one_vs_rest": shares >= threshold}


def predict_numbers(train: datasets.Dataset, scored: datasets.Dataset, seed: int) -> dict[str, np.ndarray]:
    """Fit two baselines on ``train`` and predict the numbers of ``scored``.

    Args:
        train: Rows with ``text``, perhaps ``text_pair``, and ``label``, a number.
        scored: The same.
        seed: Fixes the sample that is fitted if there are very many rows.

    Returns:
        ``mean``: always that of ``train``. ``tfidf_ridge``: ridge regression on TF-IDF, as ``predict_baselines``
        takes it.
    """
    mean = np.full(len(scored), np.mean(train["label"]))
    if len(train) > MOST_ROWS:
        train = train.shuffle(seed=seed).select(range(MOST_ROWS))
    fitted, asked = _all_terms(train, scored)
    ridge = mean if fitted is None else Ridge(alpha=1.0).fit(fitted, train["label"]).predict(asked)
    return {"mean": mean, "tfidf_ridge": ridge}


def most_frequent_tags(train: datasets.Dataset, scored: datasets.Dataset, names: list[str]) -> list[list[str]]:
    """For each sentence the tag that each word has most often in ``train``, the first tag if it is not there.

    Args:
        train: Rows with ``words`` and ``label``, the numbers of their tags.
        scored: The same.
        names: Of the tags.
    """
    counts = defaultdict(Counter)
    for words, tags in zip(train["words"], train["label"]):
        for word, tag in zip(words, tags):
            counts[word][tag] += 1
    best = {word: min(of, key=lambda tag: (-of[tag], tag)) for word, of in counts.items()}
    return [[names[best.get(word, 0)] for word in words] for words in scored["words"]]


def score_baselines(predictions: dict[str, np.ndarray], labels: list[int], split: str) -> dict[str, dict]:
    """For each baseline its ``accuracy``, ``macro_f1``, and the name of the ``split`` that was scored."""
    return {
        name: {
            "accuracy": float(accuracy_score(labels, predicted)),
            "macro_f1": float(f1_score(labels, predicted, average="macro", zero_division=0)),
            "split": split,
        }
        for name, predicted in predictions.items()
    }


def _predict_by_terms(train, scored):
    fitted, asked = _all_terms(train, scored)
    if fitted is None:
        return np.full(len(scored), train["label"][0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LogisticRegression(C=10, max_iter=300).fit(fitted, train["label"])
    return model.predict(asked)


def _all_terms(train, scored):
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
