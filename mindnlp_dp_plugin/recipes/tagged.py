"""Sentences whose words have tags: read, checked, and made a data set."""

from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.recipes.conll import TAG, TAGS, TOKENS
from mindnlp_dp_plugin.recipes.entities import OUTSIDE, entity_type, types_of
from mindnlp_dp_plugin.recipes.files import is_list
from mindnlp_dp_plugin.recipes.languages import joiner_of
from mindnlp_dp_plugin.recipes.options import RecipeOptions
from mindnlp_dp_plugin.recipes.tables import LabelledTexts, read_rows

TOKEN_NAMES = (TOKENS, "words", "token", "word", "text")
TAG_NAMES = (TAGS, "ner_tags", "ner", "labels", "label", "tag")


def read_sentences(options: RecipeOptions) -> LabelledTexts:
    """Sentences in the splits there are: columns ``text``, ``words``, and ``label``, the number of each word's tag.

    Raises:
        DataParallelError: If the files hold no tagged sentences; it names the file and the line.
    """
    found = read_rows(options, parse=_sentence, names=(TOKEN_NAMES, TAG_NAMES), tagged=True)
    types = types_of([tag for tags in found.labels() for tag in tags])
    if not types:
        raise DataParallelError(
            "column {column!r} holds no tag but O in train: there is nothing to learn.", column=found.columns.label
        )
    tags = {tag for split in found.splits for tags in found.labels(split) for tag in tags} - {OUTSIDE}
    names = [OUTSIDE, *sorted(tag for tag in tags if entity_type(tag) in types)]
    numbers = {name: number for number, name in enumerate(names)}
    joiner = joiner_of(row["text"] for row in found.splits["train"].values())
    for rows in found.splits.values():
        for row in rows.values():
            row["text"] = joiner.join(row["words"])
    return found.labelled(lambda tags: [numbers[tag] for tag in tags], names)


def words_of(cell: Any) -> list[str]:
    """The words in a cell; a ValueError says that it is no list of them."""
    if not is_list(cell) or not all(isinstance(word, (str, int, float)) for word in cell):
        raise ValueError(tr('{cell!r} is no list of words: give one, such as ["EU", "rejects"]', cell=cell))
    return list(map(str, cell))


def _sentence(words, tags):
    if words is None or words != words or words == [] or tags is None or tags != tags:
        return None
    words = words_of(words)
    if not is_list(tags) or len(tags) != len(words):
        message = Message("{count} words ({words}, ...) and the tags {tags!r}: give a list with one for each")
        raise ValueError(tr(message, count=len(words), words=", ".join(words[:3]), tags=tags))
    for tag in tags:
        if not isinstance(tag, str) or not TAG.fullmatch(tag):
            message = Message(
                "{tag!r} is no tag: give O, or the place of a word in an entity and its type, such as B-PER and I-PER "
                "(BIO, BIOES, BILOU or BMES)"
            )
            raise ValueError(tr(message, tag=tag))
    return {"text": " ".join(words), "words": words, "label": list(tags)}
