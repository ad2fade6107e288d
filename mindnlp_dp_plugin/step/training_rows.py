"""The training rows of a rank: its part of what one process would train on."""

from collections.abc import Callable, Sequence

from mindnlp_dp_plugin.collectives import Collective, require_same
from mindnlp_dp_plugin.data import ShardedDataset, shard, shard_micro_batches
from mindnlp_dp_plugin.ddp.micro_batches import MicroBatches
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.step.same_data import require_same_rows

HINT = Message(
    "Give every rank the same whole data set: the plugin shards it. If you sharded it yourself, make the shards "
    "equally long."
)
SAME_SETTINGS = Message("Give every rank the same value: the plugin itself draws dropout by rank, and shards the rows.")


def shard_training_rows(
    whole,
    collective: Collective,
    settings: dict[str, int],
    seed: int,
    grouped: Callable[[], ShardedDataset] | None = None,
    micro_batches: MicroBatches | None = None,
) -> ShardedDataset:
    """This rank's part of the rows that one process would train on. All ranks must call it.

    Args:
        whole: What that process trains on.
        collective: The ranks that train together.
        settings: What decides which rows make a step, by the names that users know.
        seed: One of them: fixes the order of the rows.
        grouped: Shards them by length instead.
        micro_batches: Those of a step, if their rows must not depend on the number of ranks.

    Raises:
        DataParallelError: If the ranks have other settings, or hold different data sets (of different length, one would
            wait for ever), too short a one for a single step, or one that cannot be grouped by length though it is to
            be.
    """
    require_same_settings(settings, collective)
    dataset = deal(whole, collective, seed, micro_batches)
    length = _describe_length(dataset)
    require_same("train_dataset", (dataset.num_rows, dataset.num_steps), collective, HINT, length)
    sample = require_same_rows("train_dataset", whole, collective)
    if grouped:
        dataset = grouped()
    require_a_step(dataset, collective)
    if collective.world_size > 1:
        dataset.watch(sample.steady_columns(), sample.read)
    return dataset


def require_same_settings(settings: dict[str, int], collective: Collective) -> None:
    """Raise unless ranks have the same. All ranks must call it."""
    for name, value in settings.items():
        require_same(name, value, collective, SAME_SETTINGS)


def require_a_step(dataset: ShardedDataset, collective: Collective) -> None:
    """Raise if this rank's part is known to make no step."""
    if dataset.num_steps == 0:
        raise DataParallelError(
            "train_dataset has {length}: too few rows for one batch of {batch_size} on each of {world_size} ranks. "
            "Use a smaller batch, fewer ranks, or drop_remainder=False.",
            length=_describe_length(dataset),
            batch_size=dataset.get_batch_size(),
            world_size=collective.world_size,
        )


def deal(
    whole,
    collective: Collective,
    seed: int,
    micro_batches: MicroBatches | None = None,
    lengths: Sequence[int] | None = None,
) -> ShardedDataset:
    """This rank's part of a pipeline, by ranks or by the micro-batches of a step; other arguments as of ``shard``."""
    if micro_batches:
        return shard_micro_batches(whole, micro_batches.num, micro_batches.mine, seed, lengths)
    return shard(whole, collective.world_size, collective.rank, seed, lengths)


def _describe_length(dataset):
    rows, steps = dataset.num_rows, dataset.num_steps
    known = tr("an unknown number of rows") if rows is None else tr("{num_rows} rows", num_rows=rows)
    return known if steps is None else tr("{rows} in {steps} steps", rows=known, steps=steps)
