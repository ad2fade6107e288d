"""Sentences whose words have tags: read, checked, made a data set, and asked for."""

from pathlib import Path

import datasets

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.asked import UNKNOWN_LABELS
from mindnlp_dp_plugin.recipes.entities import OUTSIDE, entity_type, types_of
from mindnlp_dp_plugin.recipes.languages import joiner_of
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.reading.columns import Columns, require_named
from mindnlp_dp_plugin.recipes.reading.conll import ALL_SUFFIXES, TABLE_SUFFIXES, TAG, TAGS, TOKENS, read_tagged
from mindnlp_dp_plugin.recipes.reading.decoding import decode
from mindnlp_dp_plugin.recipes.reading.lines import looks_like_conll
from mindnlp_dp_plugin.recipes.reading.splits import read_splits
from mindnlp_dp_plugin.recipes.tables import (
    COLUMNS_FOUND,
    TEXT_COLUMNS_FOUND,
    LabelledTexts,
    filled,
    said_of,
    unseen,
)
from mindnlp_dp_plugin.recipes.words import remark

TOKEN_NAMES = (TOKENS, "words", "token", "word", "text")
TAG_NAMES = (TAGS, "ner_tags", "ner", "labels", "label", "tag")


def read_sentences(options: RecipeOptions) -> LabelledTexts:
    """Sentences in the splits there are: columns ``text``, ``words``, and ``label``, the number of each word's tag.

    Raises:
        DataParallelError: If the files hold no tagged sentences; it names the file and the line.
    """
    tables = read_splits(options, read_tagged, ALL_SUFFIXES)
    columns = _find_columns(tables["train"], options)
    found, remarks = filled(tables, lambda table, split: _sentences(table, columns))
    remarks = [*said_of(tables), remark(COLUMNS_FOUND, texts=list(columns.texts), label=columns.label), *remarks]
    names = _tag_names(found, columns.label)
    numbers = {name: number for number, name in enumerate(names)}
    joiner = joiner_of(" ".join(words) for words, _, _ in found["train"])
    splits = {
        split: datasets.Dataset.from_dict(
            {
                "text": [joiner.join(words) for words, _, _ in rows],
                "words": [words for words, _, _ in rows],
                "label": [[numbers[tag] for tag in tags] for _, tags, _ in rows],
            }
        )
        for split, rows in found.items()
    }
    return LabelledTexts(splits, names, remarks, columns)


def read_asked_sentences(task, path: Path, results: dict, columns: tuple, label: str | None, encoding: str | None):
    """What ``read_asked_texts`` returns, of a file with a list of words in each row; None if it holds texts."""
    suffix = path.suffix.lower()
    if suffix not in TABLE_SUFFIXES and (suffix == ".xlsx" or not looks_like_conll(decode(path, encoding)[0])):
        return None
    table = read_tagged(path, encoding)
    tokens = _first_of(table, [*columns, *results["data"]["text_columns"], *TOKEN_NAMES])
    if tokens is None or not any(isinstance(value, (list, tuple)) for value in table.columns[tokens]):
        return None
    tags = _first_of(table, [label, results["data"]["label_column"], *TAG_NAMES])
    texts = [[_words_of(table, tokens, row)] for row in range(len(table))]
    if tags is None:
        return texts, None, [*table.remarks, remark(TEXT_COLUMNS_FOUND, texts=[tokens])]
    remarks = [*table.remarks, remark(COLUMNS_FOUND, texts=[tokens], label=tags)]
    labels = [task.read_label(cell, results) for cell in table.values(tags)]
    labels = [row if row and len(row) == len(words) else None for row, (words,) in zip(labels, texts)]
    if unknown := labels.count(None):
        remarks.append(remark(UNKNOWN_LABELS, rows=unknown))
    return texts, labels, remarks


def _find_columns(table, options):
    """The columns of words and of tags."""
    require_named(table, options.text_column, options.label_column)
    tokens = _first_of(table, [*options.text_column, *TOKEN_NAMES])
    tags = _first_of(table, [options.label_column, *TAG_NAMES])
    if tokens is None or tags is None or tokens == tags:
        raise DataParallelError(
            "no column with a list of words and one with a list of their tags: the columns are {names}. Give a CoNLL "
            'file, or jsonl such as {{"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}}; name them with '
            "--text-column and --label-column.",
            names=", ".join(table.names),
        )
    return Columns((tokens,), tags)


def _first_of(table, names):
    return next((name for name in names if name in table.names), None)


def _words_of(table, column, row):
    words = table.columns[column][row]
    if words is None:
        return []
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, (str, int, float)) for word in words):
        raise DataParallelError(
            '{place}: column {column!r} holds {words!r}, which is no list of words: give one, such as ["EU", '
            '"rejects"].',
            place=table.place(row),
            column=column,
            words=words,
        )
    return list(map(str, words))


def _sentences(table, columns):
    """Of each row that has some: its words, their tags, and its place."""
    found = []
    for row, tags in enumerate(table.values(columns.label)):
        words, place = _words_of(table, columns.texts[0], row), table.place(row)
        if not words or tags is None:
            continue
        if not isinstance(tags, (list, tuple)) or len(tags) != len(words):
            raise DataParallelError(
                "{place}: {num_words} words ({first_words}, ...) and the tags {tags!r}: give a list with one for each.",
                place=place,
                num_words=len(words),
                first_words=", ".join(words[:3]),
                tags=tags,
            )
        if odd := [tag for tag in tags if not isinstance(tag, str) or not TAG.fullmatch(tag)]:
            raise DataParallelError(
                "{place}: {tag!r} is no tag: give O, or the place of a word in an entity and its type, such as B-PER "
                "and I-PER (BIO, BIOES, BILOU or BMES).",
                place=place,
                tag=odd[0],
            )
        found.append((words, list(tags), place))
    return found


def _tag_names(found, column):
    """The tags, O first. Types of entities must occur in train."""
    types = types_of([tag for _, tags, _ in found["train"] for tag in tags])
    if not types:
        raise DataParallelError(
            "column {column!r} holds no tag but O in train: there is nothing to learn.", column=column
        )
    names = set()
    for split, sentences in found.items():
        for _, tags, place in sentences:
            if unknown := [tag for tag in tags if entity_type(tag) not in (None, *types)]:
                raise unseen(unknown[0], place, split, types)
            names.update(tags)
    return [OUTSIDE, *sorted(names - {OUTSIDE})]
