"""``group_by_length=True``, which MindNLP 0.4.1 accepts and ignores."""

import numpy as np

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.data import ShardedDataset, measure_lengths, packed_rows_of
from mindnlp_dp_plugin.ddp.micro_batches import MicroBatches
from mindnlp_dp_plugin.distributed.logging import get_logger
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.step.training_rows import deal

logger = get_logger(__name__)


def shard_by_length(dataset, args, collective: Collective, micro_batches: MicroBatches | None = None) -> ShardedDataset:
    """This rank's share of a pipeline, with rows of similar length together. All ranks must call it.

    Each rank measures a part of the rows.

    Args:
        dataset: The whole pipeline, the same on all ranks.
        args: The TrainingArguments; ``length_column_name`` names the column with the lengths, if there is one.
        collective: The ranks.
        micro_batches: Those of a step, if their rows must not depend on the number of ranks.

    Raises:
        DataParallelError: If the pipeline's rows cannot be grouped.
    """
    if packed_rows_of(dataset):
        raise DataParallelError(
            "group_by_length=True with packed rows, which are all equally long: leave one of the two out."
        )
    rank, world_size = collective.rank, collective.world_size
    shows_progress = rank == 0 and not args.disable_tqdm
    mine = measure_lengths(dataset, world_size, rank, args.length_column_name, args.seed, shows_progress)
    parts = collective.all_gather_object(mine, Message("lengths of rows"))
    lengths = np.empty(sum(map(len, parts)), np.int64)
    for first, part in enumerate(parts):
        lengths[first::world_size] = part
    if rank == 0 and np.ptp(lengths) == 0:
        logger.warning(
            tr(
                "group_by_length=True has nothing to group: all rows of train_dataset have length {length}. If that "
                "is padding, pad in the batch instead: mindnlp_dp_plugin.DynamicPadding.",
                length=lengths[0],
            )
        )
    return deal(dataset, collective, args.seed, micro_batches, lengths)
