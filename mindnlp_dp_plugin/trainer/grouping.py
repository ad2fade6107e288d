"""``group_by_length=True``, which MindNLP 0.4.1 accepts and ignores."""

import numpy as np

from mindnlp_dp_plugin.collectives import Collective, current
from mindnlp_dp_plugin.data import ShardedDataset, measure_lengths, shard
from mindnlp_dp_plugin.distributed.logging import get_logger
from mindnlp_dp_plugin.patching import Replacements

logger = get_logger(__name__)


def shard_by_length(dataset, args, collective: Collective) -> ShardedDataset:
    """This rank's share of a pipeline, with rows of similar length together. All ranks must call it.

    Each rank measures a part of the rows.

    Args:
        dataset: The whole pipeline, the same on all ranks.
        args: The TrainingArguments; ``length_column_name`` names the column with the lengths, if there is one.
        collective: The ranks.

    Raises:
        DataParallelError: If the pipeline's rows cannot be grouped.
    """
    rank, world_size = collective.rank, collective.world_size
    shows_progress = rank == 0 and not args.disable_tqdm
    mine = measure_lengths(dataset, world_size, rank, args.length_column_name, args.seed, shows_progress)
    parts = collective.all_gather_object(mine)
    lengths = np.empty(sum(map(len, parts)), np.int64)
    for first, part in enumerate(parts):
        lengths[first::world_size] = part
    if rank == 0 and np.ptp(lengths) == 0:
        logger.warning(
            "group_by_length=True has nothing to group: all rows of train_dataset have length %d. If that is padding, "
            "leave it to the batch: mindnlp_dp_plugin.DynamicPadding.",
            lengths[0],
        )
    return shard(dataset, world_size, rank, args.seed, lengths)


def _inner_training_loop(stock, self, *args, **kwargs):
    """In one process: change only the order of the rows, and only if ``group_by_length`` is set."""
    if not self.args.group_by_length:
        return stock(self, *args, **kwargs)
    dataset = shard_by_length(self.get_train_dataset(), self.args, current())
    self.get_train_dataset = lambda: dataset
    try:
        return stock(self, *args, **kwargs)
    finally:
        del self.get_train_dataset


def hook_lone_trainer(trainer_base, replacements: Replacements) -> None:
    """Let MindNLP's Trainer group by length in one process, if its arguments say so; the rest is stock.

    Args:
        trainer_base: The module ``mindnlp.engine.trainer.base``.
        replacements: Restores the Trainer.
    """
    replacements.stand_in(trainer_base.Trainer, _inner_training_loop)
