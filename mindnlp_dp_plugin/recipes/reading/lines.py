"""Files without columns: ``<label> <text>`` in each line."""

import re

from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.recipes.reading.table import Table

TAG = re.compile(r"(O|[BIESMLU]-[\w-]+)")
FASTTEXT = "__label__"
MOST_LABEL_SHARE = 0.5  # of the lines: with more different first words these are no labels


def split(text: str) -> list[str]:
    """The lines that are not blank, without blanks around them."""
    # Not splitlines(): it takes U+2028, U+0085 and form feeds for ends of lines, which are inside of texts.
    lines = (line.strip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return [line for line in lines if line]


def are_labelled(text: str, labels: list[str]) -> bool:
    """Whether most lines begin with one of these labels."""
    first = [line.split(maxsplit=1)[0].removeprefix(FASTTEXT) for line in split(text)]
    return sum(word in labels for word in first) > 0.5 * len(first)


def read_labelled(text: str) -> Table:
    """Lines of ``<label> <text>``, also with fastText's ``__label__`` before the label.

    Raises:
        ValueError: If they are not that.
    """
    parts = [[*re.split(r"[ \t\u3000]+", line, maxsplit=1), ""] for line in split(text)]
    labels = [part[0].removeprefix(FASTTEXT) for part in parts]
    if any(part[1].startswith(FASTTEXT) for part in parts):
        raise ValueError(
            tr("a line has several __label__; multi-label data are jsonl with a list of labels in each row")
        )
    if not any(part[1] for part in parts) or len(set(labels)) > max(2, MOST_LABEL_SHARE * len(labels)):
        raise ValueError(tr("it has neither columns that are known nor a `<label> <text>` in each line"))
    return Table({"label": labels, "text": [part[1] for part in parts]})


def looks_like_conll(text: str) -> bool:
    """Whether a file has a word and its tag in each line."""
    filled = [line.split() for line in text[:100_000].split("\n")[:-1] or [text] if line.strip()][:2000]
    tagged = sum(2 <= len(words) <= 4 and bool(TAG.fullmatch(words[-1])) for words in filled)
    return tagged > 0.8 * len(filled) and any(words[-1] != "O" for words in filled)
