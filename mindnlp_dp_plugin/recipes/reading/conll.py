"""Sentences with a tag for each word: CoNLL files, and tables with a list of words and one of tags in each row."""

import re
from pathlib import Path

import pandas

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.recipes.reading.encodings import decode
from mindnlp_dp_plugin.recipes.reading.files import SUFFIXES, looks_like_conll, numbered, read_file

CONLL_SUFFIXES = (".txt", ".conll", ".conll2003", ".bio", ".bmes", ".bioes", ".iob", ".iob2", ".ner", ".tsv")
ALL_SUFFIXES = tuple(dict.fromkeys([*SUFFIXES, *CONLL_SUFFIXES]))
TAG = re.compile(r"O|[BIESMLU]-\S+")
DOCUMENT = "-DOCSTART-"
TOKENS, TAGS = "tokens", "tags"


def read_tagged(
    path: Path, encoding: str | None, said: list[dict], known_labels: list[str] | None = None
) -> pandas.DataFrame:
    """The sentences of one file: a list of words in each row, and one of tags.

    Args:
        path: A CoNLL file, or json, jsonl or parquet with lists in its columns.
        encoding: Of its text, if the user named one; otherwise found.
        said: Gets remarks of what was assumed.
        known_labels: If given, it may be any other table, too, as ``read_file`` reads it.

    Raises:
        DataParallelError: If it is neither, naming the file and the line.
    """
    with path.open("rb") as file:
        beginning = file.read(4)
    if path.suffix.lower() in (".json", ".jsonl", ".parquet") or beginning.startswith((b"PAR1", b"{", b"[{")):
        return read_file(path, encoding, said, known_labels)
    if known_labels is not None and (beginning.startswith(b"PK") or not looks_like_conll(decode(path, encoding, []))):
        return read_file(path, encoding, said, known_labels)
    sentences = read_conll(decode(path, encoding, said), path.name)
    return numbered(pandas.DataFrame(sentences, columns=[TOKENS, TAGS]), path.name)


def read_conll(text: str, name: str) -> list[tuple[list[str], list[str]]]:
    """The words and the tags of each sentence: the first and last field of a line, with blank lines between sentences.

    Lines ``-DOCSTART-`` and comments, which begin with ``#`` and have no tag, are left out.

    Args:
        text: The file's contents.
        name: The file's name, for messages.

    Raises:
        DataParallelError: For the first line that is something else.
    """
    sentences = [([], [])]
    for number, line in enumerate(re.split("\r\n|\r|\n", text), 1):
        fields = line.strip("\n ").split("\t") if "\t" in line else line.split()
        if not any(field.strip() for field in fields):
            sentences.append(([], []))
            continue
        word, tag = fields[0].strip(), fields[-1].strip()
        is_tagged = len(fields) > 1 and TAG.fullmatch(tag)
        if word == DOCUMENT or word.startswith("#") and not is_tagged:
            continue
        if not is_tagged:
            raise DataParallelError(
                "{name!r}, line {number} is {line!r}: give a word and its tag in each line (O, or B-PER, I-PER and the "
                "like), a blank line after each sentence.",
                name=name,
                number=number,
                line=line.strip()[:80],
            )
        sentences[-1][0].append(word)
        sentences[-1][1].append(tag)
    sentences = [sentence for sentence in sentences if sentence[0]]
    if not sentences:
        raise DataParallelError("{name!r} has no sentences: give a word and its tag in each line.", name=name)
    return sentences


def write_conll(path: Path, rows: list[dict]) -> None:
    """Write ``tokens`` and ``tags`` of rows: a word and its tag in each line, a blank line after each sentence."""
    with path.open("w", encoding="utf-8") as file:
        for row in rows:
            file.writelines(f"{word}\t{tag}\n" for word, tag in zip(row[TOKENS], row[TAGS] or []))
            file.write("\n")
