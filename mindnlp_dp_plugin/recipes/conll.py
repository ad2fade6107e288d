"""CoNLL files: sentences with a word and its tag in each line."""

import re

from mindnlp_dp_plugin.errors import DataParallelError

SUFFIXES = (".conll", ".conll2003", ".bio", ".bmes", ".bioes", ".iob", ".iob2", ".ner")
TAG = re.compile(r"O|[BIESMLU]-\S+")
DOCUMENT = "-DOCSTART-"
TOKENS, TAGS = "tokens", "tags"


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
    return [sentence for sentence in sentences if sentence[0]]
