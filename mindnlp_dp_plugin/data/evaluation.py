"""Deal an evaluation pipeline out to the ranks: every row to one rank, none padded, none left out."""

import copy
from abc import abstractmethod
from itertools import chain, islice, zip_longest

from mindspore import dataset as ds

from mindnlp_dp_plugin.data.shard import _deal, _plan_by_row
from mindnlp_dp_plugin.data.sharded import DealtByBatch, ShardedByUser, ShardedDataset


def deal_for_evaluation(dataset: ds.Dataset, num_replicas: int, rank: int, seed: int = 0) -> "EvaluationShare":
    """This rank's batches of a pipeline. Call it with the same pipeline and seed on all ranks.

    Whole batches are dealt out, in turn: rank ``r`` of ``N`` reads batches ``r``, ``r + N``, ``r + 2N``, ... of those
    that one process would read. Each batch then holds the same rows at the same padded length as in one process, so
    that its loss and its outputs are the same to the last bit. Ranks may read unequally many, or none.

    Where ``shard`` deals by row, only a rank's own rows are read and transformed, and shuffles are left out: rows come
    in the data set's own order. Elsewhere every rank runs the whole pipeline, in the order that ``seed`` gives, and
    keeps its own batches. A pipeline that is sharded already is left alone.

    Args:
        dataset: A batched MindSpore pipeline. It is not changed.
        num_replicas: Ranks.
        rank: Which of them this is, from 0.
        seed: Fixes the order of a pipeline that has to be run whole.
    """
    pipeline = copy.deepcopy(dataset)
    if pipeline.is_sharded():
        return _SharedByUser(pipeline, num_replicas)
    plan = _plan_by_row(pipeline)
    if plan is None:
        return _EachNthBatch(pipeline, num_replicas, rank, seed)
    return _RowsOfEachNthBatch(pipeline, num_replicas, rank, plan)


class EvaluationShare(ShardedDataset):
    """A rank's batches of an evaluation pipeline."""

    @abstractmethod
    def in_order(self, batches_of_ranks: list[list]) -> list:
        """All ranks' batches in the order of the data set.

        Args:
            batches_of_ranks: For each rank, what became of its batches, in the order in which it read them.
        """


class _DealtInTurn(EvaluationShare):
    def in_order(self, batches_of_ranks):
        nothing = object()
        turns = zip_longest(*batches_of_ranks, fillvalue=nothing)
        return [batch for batch in chain.from_iterable(turns) if batch is not nothing]


class _RowsOfEachNthBatch(_DealtInTurn):
    """The source reads the rows of this rank's batches only, as many at a time as make a batch again."""

    def __init__(self, pipeline, num_replicas, rank, plan):
        self.num_rows = plan.source.get_dataset_size()
        size = pipeline.get_batch_size()
        num_kept = self.num_rows - self.num_rows % size if plan.drop_last else self.num_rows
        starts = range(rank * size, num_kept, num_replicas * size)
        self._num_batches = len(starts)
        rows = [row for start in starts for row in range(start, min(start + size, num_kept))]
        super().__init__(_deal(plan, ds.SubsetSampler(rows)), num_replicas)

    def get_dataset_size(self):
        return self._num_batches

    def create_dict_iterator(self, **options):
        if not self._num_batches:  # MindSpore refuses to read nothing
            return iter(())
        return self._pipeline.create_dict_iterator(**{"num_epochs": 1, **options})


class _EachNthBatch(_DealtInTurn, DealtByBatch):
    """The whole pipeline runs, in the same order on every rank."""

    def get_dataset_size(self):
        size = self._pipeline.get_dataset_size()
        return len(range(self._rank, size, self._num_replicas))

    def create_dict_iterator(self, **options):
        return islice(self._all_batches(options), self._rank, None, self._num_replicas)


class _SharedByUser(EvaluationShare, ShardedByUser):
    """Which rows of the data set the user's shards hold is not known: they come rank after rank."""

    def in_order(self, batches_of_ranks):
        return list(chain.from_iterable(batches_of_ranks))
