"""The training data of a rank: its share of what the Trainer would train on alone."""

from mindnlp_dp_plugin.collectives import Collective, require_same
from mindnlp_dp_plugin.data import ShardedDataset, shard
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.trainers.mindnlp.grouping import shard_by_length
from mindnlp_dp_plugin.trainers.mindnlp.same_data import require_same_rows

HINT = Message(
    "Give every rank the same whole data set: the plugin shards it. If you sharded it yourself, make the shards "
    "equally long."
)
SAME_ARGUMENTS = Message("Give every rank the same: the plugin itself draws dropout by rank, and deals out the rows.")


def shard_train_dataset(whole, trainer, collective: Collective) -> ShardedDataset:
    """This rank's share of the data that one process would train on. All ranks must call it.

    Args:
        whole: What the Trainer's own ``get_train_dataset`` returns.
        trainer: The Trainer that is to train on it.
        collective: The ranks that train together.

    Raises:
        DataParallelError: If the ranks have another seed or accumulation, or hold different data sets (of different
            length, one would wait for ever), too short a one for a single step, or one that cannot be grouped by length
            though it is to be.
    """
    args, rank, world_size = trainer.args, collective.rank, collective.world_size
    for name in ("seed", "gradient_accumulation_steps"):
        require_same(f"TrainingArguments.{name}", getattr(args, name), collective, SAME_ARGUMENTS)
    dataset = shard(whole, world_size, rank, args.seed)
    length = _describe_length(dataset)
    require_same("train_dataset", (dataset.num_rows, dataset.num_steps), collective, HINT, length)
    require_same_rows("train_dataset", whole, collective)
    if args.group_by_length:
        dataset = shard_by_length(whole, args, collective)
    if dataset.num_steps == 0:
        raise DataParallelError(
            "train_dataset has {length}: too few rows for one batch of {batch_size} on each of {world_size} ranks. "
            "Take a smaller batch, fewer ranks, or drop_remainder=False.",
            length=length,
            batch_size=dataset.get_batch_size(),
            world_size=world_size,
        )
    return dataset


def _describe_length(dataset):
    rows, steps = dataset.num_rows, dataset.num_steps
    known = tr("an unknown number of rows") if rows is None else tr("{num_rows} rows", num_rows=rows)
    return known if steps is None else tr("{rows} in {steps} steps", rows=known, steps=steps)
