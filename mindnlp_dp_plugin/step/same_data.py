"""Rejects ranks with different data, judged by a sample of the rows and the model's labels.

Rows that are random by design (augmentation, random masking) may differ between ranks. They also differ between two
readings of the same row on one rank. So each rank reads the sample twice, and a column that changed on any rank is not
compared. If other columns differ, the sample is read a few more times before that is an error, because an augmentation
may leave most rows unchanged.

Where a source draws an order of its own in each pass, ranks would read some rows twice and others never: it is refused,
by the one test in ``data/own_order.py``. A source may begin to do so later: what ranks read is compared on.
"""

import itertools
from collections.abc import Mapping

from mindspore import dataset as ds

from mindnlp_dp_plugin.collectives import Collective, require_same
from mindnlp_dp_plugin.data import ShardedDataset, own_order
from mindnlp_dp_plugin.data.sample import RowSample
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr

SAMPLE = Message("a sample of rows")
READINGS = 2
READINGS_IN_DOUBT = 6
HINT = Message(
    "All ranks must read the same data. Look for what each process decides for itself: the order of a Python set, "
    "files listed in no fixed order, random numbers without a common seed. Sort it, or seed it alike."
)
NO_COMMON_ORDER = Message(
    "{what} gives its rows in no order that ranks can share: of the columns that tell rows apart, none has the same "
    "values in the same places in each pass and on all ranks, so ranks would read some rows twice and others never. "
    "Let the source begin anew in each pass, and draw its order by the same seed on all ranks, or by the pipeline's "
    ".shuffle(); if its rows are random, add a column that is not, such as their number: .project() may leave it out "
    "again. Or let rank 0 alone read it: dispatch_batches=True (MINDNLP_DP_DISPATCH_BATCHES=1)."
)
PARTED = Message(
    "{what} has given ranks different rows since training began: its order or its contents change while it is read, "
    "so ranks have read some rows twice and others never. Change it alike on all ranks, by the same seed and in the "
    "same epoch; or let the pipeline's .shuffle() draw the order; or let rank 0 alone read it: dispatch_batches=True "
    "(MINDNLP_DP_DISPATCH_BATCHES=1)."
)
READ_SO_FAR = Message("the rows read so far")
HINT_OF_LENGTHS = Message("Give every rank the same whole data set: the plugin shards it.")


def require_same_rows(
    what: str, dataset: ds.Dataset | ShardedDataset, collective: Collective, num_rows: int | None = None
) -> RowSample:
    """Raise unless a sample of the rows is the same on all ranks. All ranks must call it.

    Args:
        what: The data set's name in the message.
        dataset: The whole pipeline, batched. Shards that the user made are not compared.
        collective: The ranks that read it.
        num_rows: Number of rows of the whole data set, compared in the same gather; None if compared already.

    Returns:
        The sample, with what was compared.

    Raises:
        DataParallelError: If they differ; the message shows each rank's number of rows, or its first value that
            differs. Also if no column that tells rows apart keeps its order: rows may come in one that each pass draws
            anew, or can be read only once.
    """
    sample = RowSample(dataset)
    if collective.world_size == 1 and not sample.may_be_read_once:
        return sample
    found = (num_rows, sample.read_often(READINGS), sample.read_in_order())
    lengths, readings, orders = zip(*collective.all_gather_object(found, SAMPLE))
    if len(set(lengths)) > 1:
        require_same(what, num_rows, collective, HINT_OF_LENGTHS, tr("{num_rows} rows", num_rows=num_rows))
    differing = _differing(readings) and _differing(
        collective.all_gather_object(sample.read_often(READINGS_IN_DOUBT), SAMPLE)
    )
    for row, column in differing[:1]:
        place = {"what": what, "number": row, "column": column}
        place = (
            tr("{what}, row {number}, column {column!r}", **place)
            if sample.unit == "row"
            else tr("{what}, batch {number}, column {column!r}", **place)
        )
        value, shown = sample.shown(row, column)
        require_same(place, value, collective, HINT, shown)
    if not all(own_order.keeps_its_order([*itertools.chain(*of_ranks)]) for of_ranks in zip(*orders)):
        raise DataParallelError(NO_COMMON_ORDER, what=what)
    return sample


def require_same_so_far(what: str, dataset: ShardedDataset, collective: Collective) -> None:
    """Raise if a source has begun to give ranks other rows. All ranks must call it, between the same batches.

    Args:
        what: The data set's name in the message.
        dataset: This rank's part.
        collective: The ranks that read it.

    Raises:
        DataParallelError: If it has.
    """
    witness = dataset.witness
    counts, digests = zip(*collective.all_gather_object((witness.count, witness.digests), READ_SO_FAR))
    # Who reads ahead, or leaves an epoch early, has read others: they meet again.
    if len(set(counts)) == 1 and own_order.have_parted(digests):
        raise DataParallelError(PARTED, what=what)


def require_same_labels(model, collective: Collective) -> None:
    """Raise unless the model's configuration numbers its labels alike on all ranks. All ranks must call it.

    Args:
        model: Its ``config.label2id`` is compared, if it has one.
        collective: The ranks that train it.

    Raises:
        DataParallelError: If they differ; the message shows each rank's mapping.
    """
    label2id = getattr(getattr(model, "config", None), "label2id", None)
    mapping = dict(label2id) if isinstance(label2id, Mapping) else None
    require_same("model.config.label2id", mapping, collective, HINT)


def _differing(everyone):
    """Rows and columns that differ between ranks but do not change on any rank."""
    random_columns = set().union(*(changing for _, changing in everyone))
    first = everyone[0][0]
    places = sorted({place for digests, _ in everyone for place in digests})
    return [
        (row, column)
        for row, column in places
        if column not in random_columns
        and any(digests.get((row, column)) != first.get((row, column)) for digests, _ in everyone)
    ]
