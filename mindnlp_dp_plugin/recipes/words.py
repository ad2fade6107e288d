"""What is said in the reader's language: sentences that JSON can hold, and the names of scores and baselines."""

from mindnlp_dp_plugin.language import Message, language, translated

JOINER = Message(", ")
NAMES = {
    "accuracy": Message("accuracy"),
    "macro_f1": Message("macro F1"),
    "micro_f1": Message("micro F1"),
    "exact_match": Message("exact match"),
    "f1": Message("F1"),
    "precision": Message("precision"),
    "recall": Message("recall"),
    "r2": Message("R²"),
    "rmse": Message("RMSE"),
    "mae": Message("mean absolute error"),
    "pearson": Message("Pearson correlation"),
    "spearman": Message("Spearman correlation"),
    "perplexity": Message("perplexity"),
    "token_accuracy": Message("token accuracy"),
    "loss": Message("loss"),
    "this_model": Message("this model"),
    "before_training": Message("the model before training"),
    "majority": Message("majority class"),
    "tfidf": Message("TF-IDF + logistic regression"),
    "tfidf_one_vs_rest": Message("TF-IDF + one logistic regression for each class"),
    "mean": Message("mean of train"),
    "tfidf_ridge": Message("TF-IDF + ridge regression"),
    "frequent_tag": Message("the most frequent tag of each word"),
    "bigrams": Message("counted pairs of tokens"),
}
"""Scores and baselines by the names under which ``metrics.json`` has them; a task may add its own."""


def named(name: str, code: str | None = None) -> str:
    """A score or baseline in a language, the user's if None."""
    return translated(NAMES[name], code or language())


def joined(parts: list[str], code: str | None = None) -> str:
    """A list in a sentence, in a language, the user's if None."""
    return translated(JOINER, code or language()).join(parts)


def remark(template: str, **values) -> dict:
    """Something to be said in the reader's language, in a form JSON can hold.

    Args:
        template: A ``Message``.
        values: What is filled in; lists are joined, and remarks are said, too.
    """
    return {"message": str(template), **values}


def say(remark: dict, code: str | None = None) -> str:
    """The sentence of a remark in a language, the user's if None."""
    code = code or language()
    values = {name: _shown(value, code) for name, value in remark.items() if name != "message"}
    return translated(remark["message"], code).format(**values)


def _shown(value, code):
    if isinstance(value, list):
        return joined([_shown(each, code) for each in value], code)
    return say(value, code) if isinstance(value, dict) else value
