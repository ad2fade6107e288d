"""Entities in tagged sentences, and their scores, as ``conlleval`` and seqeval define them."""

OUTSIDE = "O"
NO_ENTITY = "–"
# seqeval knows BIOES; these are the letters of BILOU and BMES for the same.
OTHER_LETTERS = {"L": "E", "U": "S", "M": "I"}


def entity_type(tag: str) -> str | None:
    """The type of entity a tag says; None for O."""
    return None if tag == OUTSIDE else tag.split("-", 1)[1]


def entities(tags: list[str]) -> list[tuple[str, int, int]]:
    """The entities of a sentence: type, first and last word. As ``conlleval`` finds them, by seqeval."""
    from seqeval.metrics.sequence_labeling import get_entities

    return get_entities(_as_bioes(tags))


def score_entities(predicted: list[list[str]], true: list[list[str]]) -> dict[str, float]:
    """``precision``, ``recall`` and ``f1`` of whole entities, ``accuracy`` of words, and how many are ``predicted``.

    An entity is right if its type, its first and its last word are.

    Args:
        predicted: For each sentence the tag of each word.
        true: The same.
    """
    found, wanted = (
        {(row, *each) for row, of in enumerate(tags) for each in entities(of)} for tags in (predicted, true)
    )
    right = len(found & wanted)
    words = [(mine, theirs) for one, other in zip(predicted, true) for mine, theirs in zip(one, other)]
    return {
        "precision": right / max(1, len(found)),
        "recall": right / max(1, len(wanted)),
        "f1": 2 * right / max(1, len(found) + len(wanted)),
        "accuracy": sum(mine == theirs for mine, theirs in words) / max(1, len(words)),
        "predicted": len(found),
    }


def score_types(predicted: list[list[str]], true: list[list[str]], types: list[str]) -> list[dict]:
    """Precision, recall and F1 of each type of entity, and how many there are, as ``rows``.

    Args:
        predicted: For each sentence the tag of each word.
        true: The same.
        types: All.
    """
    from seqeval.metrics import classification_report

    found = classification_report(
        [_as_bioes(tags) for tags in true], [_as_bioes(tags) for tags in predicted], output_dict=True, zero_division=0
    )
    names = {"precision": "precision", "recall": "recall", "f1": "f1-score"}
    return [
        {
            "label": kind,
            **{name: float(found[kind][theirs]) if kind in found else 0.0 for name, theirs in names.items()},
            "rows": int(found[kind]["support"]) if kind in found else 0,
        }
        for kind in types
    ]


def in_words(words: list[str], tags: list[str], joiner: str) -> str:
    """The entities of a sentence with their types."""
    found = [f"{kind} {joiner.join(words[first : last + 1])}" for kind, first, last in entities(tags)]
    return "; ".join(found) or NO_ENTITY


def _as_bioes(tags):
    return [OTHER_LETTERS.get(tag[0], tag[0]) + tag[1:] for tag in tags]
