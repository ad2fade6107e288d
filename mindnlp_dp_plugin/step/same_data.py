"""Rejects ranks with different data, judged by a sample of the rows and the model's labels.

Rows that are random by design (augmentation, random masking) may differ between ranks. They also differ between two
readings of the same row on one rank. So each rank reads the sample twice, and a column that changed on any rank is not
compared. If other columns differ, the sample is read a few more times before that is an error, because an augmentation
may leave most rows unchanged.
"""

from collections.abc import Mapping

from mindspore import dataset as ds

from mindnlp_dp_plugin.collectives import Collective, require_same
from mindnlp_dp_plugin.data import ShardedDataset
from mindnlp_dp_plugin.data.sample import RowSample
from mindnlp_dp_plugin.language import Message, tr

SAMPLE = Message("a sample of rows")
READINGS = 2
READINGS_IN_DOUBT = 6
HINT = Message(
    "All ranks must read the same data. Look for what each process decides for itself: the order of a Python set, "
    "files listed in no fixed order, random numbers without a common seed. Sort it, or seed it alike."
)
HINT_OF_LENGTHS = Message("Give every rank the same whole data set: the plugin deals it out.")


def require_same_rows(
    what: str, dataset: ds.Dataset | ShardedDataset, collective: Collective, num_rows: int | None = None
) -> tuple[dict[tuple[int, str], int], set[str]]:
    """Raise unless a sample of the rows is the same on all ranks. All ranks must call it.

    Args:
        what: The data set's name in the message.
        dataset: The whole pipeline, batched. Shards that the user made are not compared.
        collective: The ranks that read it.
        num_rows: Number of rows of the whole data set, compared in the same gather; None if compared already.

    Returns:
        What rank 0 has read, as ``RowSample.read`` returns it.

    Raises:
        DataParallelError: If they differ; the message shows each rank's number of rows, or its first value that
            differs.
    """
    sample = RowSample(dataset)
    lengths, readings = zip(*collective.all_gather_object((num_rows, sample.read(READINGS)), SAMPLE))
    if len(set(lengths)) > 1:
        require_same(what, num_rows, collective, HINT_OF_LENGTHS, tr("{num_rows} rows", num_rows=num_rows))
    differing = _differing(readings) and _differing(
        collective.all_gather_object(sample.read(READINGS_IN_DOUBT), SAMPLE)
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
    return readings[0]


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
