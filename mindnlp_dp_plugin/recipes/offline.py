"""Inputs for a first run without a hub: generated reviews and untrained small models, as files."""

from pathlib import Path

from mindnlp_dp_plugin.recipes.reviews import generate_reviews
from mindnlp_dp_plugin.recipes.small_models import SAVERS


def save_offline_inputs(folder: str | Path, num_reviews: int = 4000) -> dict[str, str]:
    """Write generated film reviews and small models, unless the folder exists already.

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
