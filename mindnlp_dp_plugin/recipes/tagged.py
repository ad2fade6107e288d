"""Sentences whose words have tags: read, checked, and made a data set."""

import datasets

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.entities import OUTSIDE, entity_type
from mindnlp_dp_plugin.recipes.languages import is_written_without_spaces
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.reading.columns import Columns, require_named
from mindnlp_dp_plugin.recipes.reading.conll import ALL_SUFFIXES, TAG, TAGS, TOKENS, read_tagged
from mindnlp_dp_plugin.recipes.reading.splits import read_splits
from mindnlp_dp_plugin.recipes.reading.table import Table
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, unseen
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
    remarks = [each for table in tables.values() for each in table.remarks]
    remarks.append(remark("columns_found", texts=list(columns.texts), label=columns.label))
    rows = {}
    for split, table in tables.items():
        rows[split] = _sentences(table, columns)
        if dropped := len(table) - len(rows[split]):
            remarks.append(remark("empty_rows", split=split, dropped=dropped, rows=len(table)))
        if not rows[split] and split != "train":  # test sets are often published without their tags
            del rows[split]
    names = _tag_names(rows, columns.label)
    joiner = "" if is_written_without_spaces(" ".join(words) for words, _, _ in rows["train"]) else " "
    splits = {split: _to_dataset(sentences, names, joiner) for split, sentences in rows.items()}
    return LabelledTexts(splits, names, remarks, columns)


def _find_columns(table, options):
    """The columns of words and of tags."""
    require_named(table, options.text_column, options.label_column)
    tokens = first_of(table, [*options.text_column, *TOKEN_NAMES])
    tags = first_of(table, [options.label_column, *TAG_NAMES])
    if tokens is None or tags is None or tokens == tags:
        raise DataParallelError(
            "no column with a list of words and one with a list of their tags: the columns are {names}. Give a CoNLL "
            'file, or jsonl such as {{"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}}; name them with '
            "--text-column and --label-column.",
            names=", ".join(table.names),
        )
    return Columns((tokens,), tags)


def first_of(table: Table, names: list) -> str | None:
    """The first of these columns that a table has."""
    return next((name for name in names if name in table.names), None)


def words_of(table: Table, column: str, row: int) -> list[str]:
    """The words of a row.

    Raises:
        DataParallelError: If it has something else.
    """
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
        words, place = words_of(table, columns.texts[0], row), table.place(row)
        if not words or tags is None:
            continue
        if not isinstance(tags, (list, tuple)):
            raise DataParallelError(
                "{place}: column {column!r} holds {tags!r}, which is no list of tags.",
                place=place,
                column=columns.label,
                tags=tags,
            )
        if len(tags) != len(words):
            raise DataParallelError(
                "{place}: {num_words} words and {num_tags} tags ({first_words}, ...): give each word one.",
                place=place,
                num_words=len(words),
                num_tags=len(tags),
                first_words=", ".join(words[:3]),
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


def _tag_names(rows, column):
    """The tags, O first. Types of entities must occur in train."""
    if not rows["train"]:
        raise DataParallelError("the training data have no sentence with words and tags: check the columns.")
    types = {entity_type(tag) for _, tags, _ in rows["train"] for tag in tags} - {None}
    if not types:
        raise DataParallelError(
            "column {column!r} holds no tag but O in train: there is nothing to learn.", column=column
        )
    names = set()
    for split, sentences in rows.items():
        for _, tags, place in sentences:
            if unknown := [tag for tag in tags if tag != OUTSIDE and entity_type(tag) not in types]:
                raise unseen(unknown[0], place, split, sorted(types))
            names.update(tags)
    return [OUTSIDE, *sorted(names - {OUTSIDE})]


def _to_dataset(rows, names, joiner):
    numbers = {name: number for number, name in enumerate(names)}
    return datasets.Dataset.from_dict(
        {
            "text": [joiner.join(words) for words, _, _ in rows],
            "words": [words for words, _, _ in rows],
            "label": [[numbers[tag] for tag in tags] for _, tags, _ in rows],
        }
    )
