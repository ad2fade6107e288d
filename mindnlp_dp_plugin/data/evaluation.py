"""Shard an evaluation pipeline: every row on exactly one rank, none padded, none left out."""

import copy
from abc import abstractmethod
from itertools import chain, islice, zip_longest

from mindspore import dataset as ds

from mindnlp_dp_plugin.data.sampler import NumberedRows
from mindnlp_dp_plugin.data.shard import is_sharded_by_user, plan_by_row, with_sampler
from mindnlp_dp_plugin.data.sharded import ShardedByBatch, ShardedByRow, ShardedByUser, ShardedDataset, drawing_from


def shard_for_evaluation(
    dataset: ds.Dataset | ShardedDataset, num_replicas: int, rank: int, seed: int = 0
) -> "EvaluationShard":
    """This rank's batches of a pipeline. Call it with the same pipeline and seed on all ranks.

    Ranks take whole batches in turn: rank ``r`` of ``N`` reads batches ``r``, ``r + N``, ``r + 2N``, ... of those one
    process would read. Each batch then holds the same rows at the same padded length as in one process, so its loss
    and outputs are equal to the last bit. Ranks may read different numbers of batches, or none.

    If ``shard`` would shard the pipeline by row, only a rank's own rows are read and transformed, and shuffles are
    removed: rows come in the data set's order. Otherwise every rank runs the whole pipeline, in the order that ``seed``
    gives, and keeps its own batches. A pipeline that is sharded already is left alone: all rows of its shards are
    scored, including those that pad a shard.

    Args:
        dataset: A batched MindSpore pipeline, or a result of ``shard``. It is not changed.
        num_replicas: Number of ranks.
        rank: This rank, from 0.
        seed: Fixes the order of a pipeline that every rank runs as a whole.
    """
    if isinstance(dataset, ShardedDataset):
        return _SharedByUser(dataset, num_replicas)
    pipeline = copy.deepcopy(dataset)
    if is_sharded_by_user(pipeline):
        return _SharedByUser(ShardedByUser(pipeline, num_replicas), num_replicas)
    plan = plan_by_row(pipeline)
    if plan is None:
        return _EachNthBatch(pipeline, num_replicas, rank, seed)
    num_rows = plan.source.get_dataset_size()
    rows = _rows_of_batches(num_rows, pipeline.get_batch_size(), num_replicas, rank, plan.drop_last)
    return _RowsOfEachNthBatch(with_sampler(plan, rows), num_replicas, rows, num_rows, seed)


def _rows_of_batches(num_rows, batch_size, num_replicas, rank, drop_last):
    """The rows of every N-th batch, so that batching them gives those batches again."""
    num_kept = num_rows - num_rows % batch_size if drop_last else num_rows
    starts = range(rank * batch_size, num_kept, num_replicas * batch_size)
    return NumberedRows([row for start in starts for row in range(start, min(start + batch_size, num_kept))])


class EvaluationShard(ShardedDataset):
    """A rank's batches of an evaluation pipeline."""

    @abstractmethod
    def in_order(self, batches_of_ranks: list[list]) -> list:
        """All ranks' batches in the order of the data set.

        Args:
            batches_of_ranks: For each rank, the results of its batches, in the order in which it read them.
        """


class InTurn(EvaluationShard):
    """Ranks take the batches of the data set in turn."""

    def in_order(self, batches_of_ranks):
        """All ranks' batches in the order of the data set."""
        nothing = object()
        turns = zip_longest(*batches_of_ranks, fillvalue=nothing)
        return [batch for batch in chain.from_iterable(turns) if batch is not nothing]


class _RowsOfEachNthBatch(InTurn, ShardedByRow):
    """The source reads the rows of this rank's batches only."""


class _EachNthBatch(InTurn, ShardedByBatch):
    """The whole pipeline runs, in the same order on every rank."""

    def get_dataset_size(self):
        with drawing_from(self._seed_of_epoch(0)):
            size = self._pipeline.get_dataset_size()
        return size if size is None or size < 0 else len(range(self._rank, size, self._num_replicas))

    def _take_turns(self, batches):
        return islice(batches, self._rank, None, self._num_replicas)


class _SharedByUser(EvaluationShard):
    """The user's shards: it is unknown which rows they hold, so they are joined rank after rank."""

    def _read(self, options):
        return self._pipeline.create_dict_iterator(**options)

    def in_order(self, batches_of_ranks):
        return list(chain.from_iterable(batches_of_ranks))
