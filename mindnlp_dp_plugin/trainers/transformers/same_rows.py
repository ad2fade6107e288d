"""Rejects ranks with different rows, judged by a sample: shuffled or split without a common seed, some would be trained
twice and others never.

Each rank reads the sample twice, with the same draws: augmentation makes the same of it on all ranks. What a rank finds
changed all the same, it does not compare.
"""

import pickle
from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
from transformers import Trainer

from mindnlp_dp_plugin.collectives import Collective, require_same
from mindnlp_dp_plugin.data import own_order
from mindnlp_dp_plugin.distributed.gather import to_numpy
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.step.same_data import HINT, HINT_OF_LENGTHS
from mindnlp_dp_plugin.trainers.transformers.draws import Draws

MOST_ROWS = 16
SHOWN = 60
SAMPLE = Message("a sample of rows")


def require_same_rows(what: str, dataset: Sequence, collective: Collective) -> None:
    """Raise unless a sample of the rows, and their number, are the same on all ranks. All ranks must call it.

    Args:
        what: The data set's name in the message.
        dataset: Its rows are read by number.
        collective: The ranks that read it.

    Raises:
        DataParallelError: If they differ; the message shows each rank's number of rows, or the first value.
    """
    require_same(what, len(dataset), collective, HINT_OF_LENGTHS, tr("{num_rows} rows", num_rows=len(dataset)))
    numbers = sorted({round(number) for number in np.linspace(0, len(dataset) - 1, min(MOST_ROWS, len(dataset)))})
    first, again = (_read(dataset, numbers) for _ in range(2))
    mine = {place: digest for place, (digest, _) in first.items() if again.get(place, (None,))[0] == digest}
    everyone = collective.all_gather_object(mine, SAMPLE)
    compared = set.intersection(*map(set, everyone))
    for number, column in sorted(place for place in compared if len({digests[place] for digests in everyone}) > 1)[:1]:
        place = tr("{what}, row {number}, column {column!r}", what=what, number=number, column=column)
        require_same(place, *(mine[number, column], collective, HINT, first[number, column][1]))


def compare_rows(trainer: Trainer, dataset: Any, collective: Collective) -> None:
    """As ``require_same_rows`` for what is evaluated, once; of ``datasets``, each loader has another object."""
    compared = vars(trainer).setdefault("_compared_rows", {})
    known_by = getattr(dataset, "_fingerprint", id(dataset))
    if known_by not in compared and isinstance(dataset, Sized) and hasattr(dataset, "__getitem__"):
        require_same_rows(Message("The data set to evaluate"), dataset, collective)
        compared[known_by] = dataset if known_by == id(dataset) else None  # nobody else gets its number meanwhile


def _read(dataset, numbers):
    """Digest and text of each value, by row and column."""
    draws = Draws(0, rank=0)
    with draws.joined():
        draws.part(0)
        return {(number, column): found for number in numbers for column, found in _values(dataset[number])}


def _values(row: Any) -> Iterator[tuple[str, tuple[int, str]]]:
    columns = row if isinstance(row, Mapping) else {"": row}
    for name, value in columns.items():
        value = to_numpy(value)
        try:
            content = pickle.dumps(value)
        except Exception:  # not to be sent anywhere, so not to be compared
            continue
        yield str(name), (own_order.digest(np.frombuffer(content, np.uint8)), str(value)[:SHOWN])
