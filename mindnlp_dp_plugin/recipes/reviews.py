"""Film reviews generated from a small grammar: data for a first run without network or files.

A review says what it thinks of several sides of a film. Some of it goes against its verdict, and negation turns words
around, so that neither a single word nor the mere count of good words gives the label away.
"""

import random
from pathlib import Path

from mindnlp_dp_plugin.recipes.small_models import SAVERS

SIDES = ["plot", "acting", "camera work", "music", "ending", "dialogue", "pacing", "lead actor", "script", "humour"]
GOOD = ["brilliant", "moving", "clever", "gripping", "charming", "superb", "delightful", "sharp", "honest", "warm"]
BAD = ["dull", "clumsy", "tedious", "shallow", "noisy", "predictable", "lifeless", "messy", "cold", "pointless"]
LINKS = ["and", "while", "and, after all,", "and besides", "and what is more,"]
OPENINGS = ["I saw this film last night.", "My friends made me watch it.", "We waited a year for this one.", ""]
VERDICTS = {1: ["I would see it again.", "Go and see it."], 0: ["I want my evening back.", "Stay at home instead."]}


def generate_reviews(num_reviews: int, seed: int = 0) -> dict[str, list]:
    """Balanced reviews: the same for the same arguments, on every machine.

    Args:
        num_reviews: Number of reviews.
        seed: Fixes the reviews.

    Returns:
        Columns ``text`` (str) and ``label`` (1 for a good review, 0 for a bad one), in random order.
    """
    chance = random.Random(seed)
    labels = [index % 2 for index in range(num_reviews)]
    chance.shuffle(labels)
    return {"text": [_review(label, chance) for label in labels], "label": labels}


def _review(label, chance):
    num_clauses = chance.choice([3, 5, 7])
    agreeing = chance.randint(num_clauses // 2 + 1, num_clauses)
    opinions = [label] * agreeing + [1 - label] * (num_clauses - agreeing)
    chance.shuffle(opinions)
    sides = chance.sample(SIDES, num_clauses)
    text = f" {chance.choice(LINKS)} ".join(_clause(side, opinion, chance) for side, opinion in zip(sides, opinions))
    verdict = chance.choice(VERDICTS[label]) if chance.random() < 0.5 else ""
    return " ".join(filter(None, [chance.choice(OPENINGS), text[0].upper() + text[1:] + ".", verdict]))


def _clause(side, is_good, chance):
    negated = chance.random() < 0.25
    words = GOOD if is_good != negated else BAD
    return f"the {side} was {'not ' if negated else ''}{chance.choice(words)}"


def save_offline_inputs(folder: str | Path, num_reviews: int = 4000) -> dict[str, str]:
    """Write generated film reviews and small models for a run without a hub, unless the folder exists already.

    Call it on one rank at a time, for example inside ``dp.main_process_first()``.

    Args:
        folder: Where the files go.
        num_reviews: How many rows ``train.csv`` has; ``test.csv`` has 500.

    Returns:
        The paths by name: ``generated`` (a folder with ``train.csv`` and ``test.csv``, columns ``text`` and ``label``),
        ``small-roberta`` and ``small-bert`` (model folders as ``from_pretrained`` reads them).
    """
    import datasets

    folder = Path(folder)
    if not folder.exists():
        reviews = {"train": generate_reviews(num_reviews, seed=1), "test": generate_reviews(500, seed=2)}
        (folder / "generated").mkdir(parents=True)
        for split, columns in reviews.items():
            datasets.Dataset.from_dict(columns).to_csv(folder / "generated" / f"{split}.csv")
        for name in ("small-roberta", "small-bert"):
            SAVERS[name](folder / name, reviews["train"]["text"], num_labels=2)
    return {path.name: str(path) for path in folder.iterdir()}
