"""Find the text and label columns of a table, by name."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.files import as_text, is_number

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
    *("文本", "评论", "内容", "句子", "正文", "标题"),
    *("tokens", "words", "messages"),  # of what is asked of other tasks
)
LABELS = (
    *("label", "labels", "class", "category", "sentiment", "target", "intent", "polarity", "stars", "rating"),
    *("score", "similarity"),
    *("标签", "类别", "分类", "情感", "评分", "分数"),
)
TAG_NAMES = ("tags", "ner_tags", "ner", "labels", "label", "tag")


class Columns(NamedTuple):
    """Names of columns.

    Attributes:
        texts: One, or two for pairs of texts.
        label: The class; None if there is none.
    """

    texts: tuple[str, ...]
    label: str | None


def find_columns(table: pandas.DataFrame, texts: tuple[str, ...] = (), label: str | None = None) -> Columns:
    """The columns to learn from.

    Args:
        table: The rows to train on.
        texts: The text column, or the two of a pair, if the user named them.
        label: The label column, if the user named it.

    Raises:
        DataParallelError: If a named column is not there or holds no text, or if the columns cannot be told.
    """
    require_named(table, texts, label)
    if len(texts) > 2 or len({*texts, label}) <= len(texts):
        raise DataParallelError(
            "--text-column {texts} with --label-column {label!r}: name one text column, or the two of a pair, and "
            "another one for the label.",
            texts=", ".join(texts),
            label=label,
        )
    texts = tuple(texts) or find_texts(table, label)
    label = label or first_named([name for name in table if name not in texts], LABELS)
    if label is None:
        raise DataParallelError(
            "none of the columns {names} is called label, or a word like it: name it so in the first row of the file, "
            "or give --label-column.",
            names=", ".join(table),
        )
    for name in texts:
        if not _holds_text(table[name]):
            raise DataParallelError(
                "column {name!r} holds no text (for example {example!r}): choose --text-column among the columns "
                "{names}.",
                name=name,
                example=next((value for value in table[name] if value not in (None, "")), None),
                names=", ".join(table),
            )
    return Columns(texts, label)


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


def find_texts(table: pandas.DataFrame, label: str | None = None) -> tuple[str, ...]:
    """The column with the text, or the two with a pair.

    Raises:
        DataParallelError: If none has a name that is known.
    """
    others = [name for name in table if name != label]
    lowered = {name.lower(): name for name in others}
    for pair in PAIRS:
        if all(name in lowered for name in pair):
            return tuple(lowered[name] for name in pair)
    if named := first_named(others, TEXTS):
        return (named,)
    raise DataParallelError(
        "none of the columns {names} is called text, or a word like it: name it so in the first row of the file, or "
        "give --text-column.",
        names=", ".join(table),
    )


def first_named(columns: Sequence[str], names: Sequence[str]) -> str | None:
    """The first column that has one of these names, in whatever case; earlier names come first."""
    lowered = {column.lower(): column for column in columns}
    return next((lowered[name] for name in names if name in lowered), None)


def _holds_text(values):
    """Whether a column holds words rather than numbers or anything else."""
    return any(isinstance(value, str) and as_text(value) and not is_number(value) for value in values)
