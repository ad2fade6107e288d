"""``dispatch_batches``: rank 0 reads, and every rank trains or scores what it is dealt."""

import functools
import pickle

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.data import ShardedDataset
from mindnlp_dp_plugin.data.dispatched import Dispatched, DispatchedForEvaluation
from mindnlp_dp_plugin.data.shard import is_sharded_by_user, require_whole_passes
from mindnlp_dp_plugin.ddp.micro_batches import MicroBatches
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.step.training_rows import require_a_step, require_same_settings

BATCHES = Message("batches that rank 0 deals out")


def dispatch_training_rows(
    whole,
    collective: Collective,
    settings: dict[str, int],
    seed: int,
    micro_batches: MicroBatches | None = None,
    counts: bool = False,
) -> ShardedDataset:
    """This rank's part of what rank 0 alone reads. All ranks must call it, and read it in step.

    Args:
        whole: What one process trains on.
        collective: The ranks that train together.
        settings: What decides which rows make a step, by the names that users know.
        seed: What shuffles of the pipeline draw from, with the epoch.
        micro_batches: Those of a step, if their rows must not depend on the number of ranks.
        counts: Whether its length is wanted even if rank 0 has to read all rows once to know it.

    Raises:
        DataParallelError: If the ranks have other settings, or the data are sharded already, or too few for a step.
    """
    require_same_settings(settings, collective)
    _require_whole("train_dataset", whole)
    if not micro_batches:
        require_whole_passes(whole, collective.world_size)
    num = micro_batches.num if micro_batches else collective.world_size
    mine = micro_batches.mine if micro_batches else [collective.rank]
    tell = functools.partial(broadcast, collective)
    dataset = Dispatched(whole, num, mine, seed, collective.rank == 0, tell, counts)
    dataset.is_elastic = micro_batches is not None
    require_a_step(dataset, collective)
    return dataset


def dispatch_for_evaluation(dataset, collective: Collective, seed: int) -> DispatchedForEvaluation:
    """This rank's batches of what rank 0 alone reads. All ranks must call it, and read it to its end.

    Args:
        dataset: What one process scores.
        collective: The ranks that score together.
        seed: What shuffles of the pipeline draw from.

    Raises:
        DataParallelError: If the data are sharded already.
    """
    _require_whole(Message("The data set to evaluate"), dataset)
    tell = functools.partial(broadcast, collective)
    return DispatchedForEvaluation(dataset, collective.world_size, collective.rank, seed, tell)


def broadcast(collective: Collective, value=None):
    """Rank 0's ``value``, on every rank; its bytes travel once. All ranks must call it."""
    if collective.world_size == 1:
        return value
    message = pickle.dumps(value) if collective.rank == 0 else b""
    size = collective.all_gather_object(len(message), BATCHES)[0]
    sent = mindspore.Tensor(np.frombuffer(message or bytes(size), np.uint8))
    collective.broadcast(sent)
    return value if collective.rank == 0 else pickle.loads(sent.asnumpy().tobytes())


def _require_whole(what, dataset):
    if isinstance(dataset, ShardedDataset) or is_sharded_by_user(dataset):
        raise DataParallelError(
            "dispatch_batches: {what} is sharded already, and rank 0 would read its own shard alone. Give the whole "
            "data set, or leave dispatch_batches out.",
            what=what,
        )
