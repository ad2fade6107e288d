"""Find the text and label columns of a table, by name."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas

from mindnlp_dp_plugin.errors import DataParallelError

PAIRS = (
    ("sentence1", "sentence2"),
    ("text1", "text2"),
    ("text_a", "text_b"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("question", "sentence"),
    ("question", "passage"),
)
TEXTS = (
    *("text", "sentence", "review", "content", "comment", "tweet", "title", "document", "question", "utterance"),
    *("message", "headline", "query", "sms", "comment_text"),
    *("文本", "评论", "内容", "句子", "正文", "标题"),
    *("tokens", "words", "messages"),  # of what is asked of other tasks
)
LABELS = (
    *("label", "labels", "class", "category", "sentiment", "target", "intent", "polarity", "stars", "rating"),
    *("score", "similarity", "star", "topic", "emotion", "verdict"),
    *("标签", "类别", "分类", "情感", "评分", "分数"),
)


class Columns(NamedTuple):
    """Names of columns.

    Attributes:
        texts: One, or two for pairs of texts.
        label: The class; None if there is none.
    """

    texts: tuple[str, ...]
    label: str | None


def find_columns(
    table: pandas.DataFrame,
    texts: tuple[str, ...] = (),
    label: str | None = None,
    names: tuple[Sequence[str], Sequence[str]] = (TEXTS, LABELS),
) -> Columns:
    """The columns to learn from.

    Args:
        table: The rows to train on.
        texts: The text column, or the two of a pair, if the user named them.
        label: The label column, if the user named it.
        names: What texts and labels are called; no labels if there are none.

    Raises:
        DataParallelError: If a named column is not there, or none has a name that is known.
    """
    require_named(table, texts, label)
    if len(texts) > (2 if names[0] is TEXTS else 1) or len({*texts, label}) <= len(texts):
        raise DataParallelError(
            "--text-column {texts} with --label-column {label!r}: name one text column, or the two of a pair, and "
            "another one for the label.",
            texts=", ".join(texts),
            label=label,
        )
    texts = tuple(texts) or find_texts(table, label, names[0])
    others = [name for name in table if name not in texts]
    return Columns(texts, label or (_first_named(others, names[1], "--label-column", table) if names[1] else None))


def require_named(table: pandas.DataFrame, texts: Sequence[str], label: str | None) -> None:
    """Raise a DataParallelError unless a table has the columns that were named, or found in the rows to train on."""
    for option, name in [*(("--text-column", name) for name in texts), ("--label-column", label)]:
        if name is not None and name not in table:
            raise DataParallelError(
                "{option} {name!r} is not in {file!r}: its columns are {names}.",
                option=option,
                name=name,
                file=table.index[0][0],
                names=", ".join(table),
            )


def find_texts(table: pandas.DataFrame, label: str | None = None, names: Sequence[str] = TEXTS) -> tuple[str, ...]:
    """The column with the text, or the two with a pair.

    Raises:
        DataParallelError: If none has a name that is known.
    """
    others = [name for name in table if name != label]
    lowered = {name.lower(): name for name in others}
    for pair in PAIRS if names is TEXTS else ():
        if all(name in lowered for name in pair):
            return tuple(lowered[name] for name in pair)
    return (_first_named(others, names, "--text-column", table),)


def _first_named(columns, names, option, table):
    """The first column that has one of these names, in whatever case; earlier names come first."""
    lowered = {column.lower(): column for column in columns}
    found = next((lowered[name] for name in names if name in lowered), None)
    if found is None:
        raise DataParallelError(
            "none of the columns {names} is called {wanted}, or a word like it: name it so in the first row of the "
            "file, or give {option}.",
            names=", ".join(table),
            wanted=names[0],
            option=option,
        )
    return found
