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
    from seqeval.metrics.sequence_labeling import accuracy_score, precision_recall_fscore_support

    true, predicted = ([_as_bioes(tags) for tags in sentences] for sentences in (true, predicted))
    precision, recall, f1, _ = precision_recall_fscore_support(true, predicted, average="micro", zero_division=0)
    return {
        "precision": float(precision),
        "recall": float(recall),
        "f1": float(f1),
        "accuracy": float(accuracy_score(true, predicted)),
        "predicted": sum(len(entities(tags)) for tags in predicted),
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
