"""Sentences with a tag for each word: CoNLL files, and tables with a list of words and one of tags in each row."""

import re
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.reading.decoding import decode
from mindnlp_dp_plugin.recipes.reading.formats import SUFFIXES, read_file
from mindnlp_dp_plugin.recipes.reading.table import Table

CONLL_SUFFIXES = (".txt", ".conll", ".conll2003", ".bio", ".bmes", ".bioes", ".iob", ".iob2", ".ner", ".tsv")
TABLE_SUFFIXES = (".json", ".jsonl", ".parquet")
ALL_SUFFIXES = tuple(dict.fromkeys([*SUFFIXES, *CONLL_SUFFIXES]))
TAG = re.compile(r"O|[BIESMLU]-\S+")
DOCUMENT = "-DOCSTART-"
TOKENS, TAGS = "tokens", "tags"


def read_tagged(path: Path, encoding: str | None = None) -> Table:
    """The sentences of one file: a list of words in each row, and one of tags.

    Args:
        path: A CoNLL file, or json, jsonl or parquet with lists in its columns.
        encoding: Of its text, if the user named one; otherwise found.

    Raises:
        DataParallelError: If it is neither, naming the file and the line.
    """
    with path.open("rb") as file:
        beginning = file.read(4)
    if path.suffix.lower() in TABLE_SUFFIXES or beginning.startswith((b"PAR1", b"{", b"[{")):
        return read_file(path, encoding)
    text, remarks = decode(path, encoding)
    table = read_conll(text.removeprefix("\ufeff"), path.name)
    table.remarks[:0] = remarks
    table.files = [(path.name, len(table))]
    return table


def read_conll(text: str, name: str) -> Table:
    """The sentences of a CoNLL file: a word and its tag, the first and last field of a line, and blank lines between.

    Lines ``-DOCSTART-`` and comments, which begin with ``#`` and have no tag, are left out.

    Args:
        text: The file's contents.
        name: The file's name, for messages.

    Raises:
        DataParallelError: For the first line that is something else.
    """
    sentences, begun, words, tags = [], [], [], []
    for number, line in enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), 1):
        fields = line.strip("\n ").split("\t") if "\t" in line else line.split()
        if not any(field.strip() for field in fields):
            if words:
                sentences.append((words, tags))
                words, tags = [], []
            continue
        word, tag = fields[0].strip(), fields[-1].strip()
        if word == DOCUMENT or word.startswith("#") and (len(fields) == 1 or not TAG.fullmatch(tag)):
            continue
        if len(fields) < 2 or not TAG.fullmatch(tag):
            raise DataParallelError(
                "{name!r}, line {number} ends in {tag!r}, which is no tag: give a word and its tag in each line (O, or "
                "B-PER, I-PER and the like), a blank line after each sentence."
                if len(fields) > 1
                else "{name!r}, line {number} is {word!r} alone: give a word and its tag in each line (O, or B-PER, "
                "I-PER and the like), a blank line after each sentence.",
                name=name,
                number=number,
                word=word,
                tag=tag,
            )
        if not words:
            begun.append(number)
        words.append(word)
        tags.append(tag)
    if words:
        sentences.append((words, tags))
    if not sentences:
        raise DataParallelError("{name!r} has no sentences: give a word and its tag in each line.", name=name)
    tokens, tags = map(list, zip(*sentences))
    return Table({TOKENS: tokens, TAGS: tags}, lines=begun)


def write_conll(path: Path, rows: list[dict]) -> None:
    """Write a word and its tag in each line, and a blank line after each sentence; whole or not at all.

    Args:
        path: The file.
        rows: Each with ``tokens`` and ``tags``.
    """
    unfinished = path.with_name(f"incomplete-{path.name}")
    with unfinished.open("w", encoding="utf-8") as file:
        for row in rows:
            file.writelines(f"{word}\t{tag}\n" for word, tag in zip(row[TOKENS], row[TAGS] or []))
            file.write("\n")
    unfinished.replace(path)
