"""The micro-batches of a step, whose rows do not depend on the number of ranks that compute them.

Micro-batch ``v`` of V holds what rank ``v`` of V ranks would read.
"""

from collections.abc import Sequence
from itertools import islice

from mindspore import dataset as ds

from mindnlp_dp_plugin.data.shard import shard
from mindnlp_dp_plugin.data.sharded import ShardedByBatch, ShardedByRow, ShardedDataset
from mindnlp_dp_plugin.errors import DataParallelError


def shard_micro_batches(
    dataset: ds.Dataset, num: int, mine: Sequence[int], seed: int = 0, lengths: Sequence[int] | None = None
) -> ShardedDataset:
    """This rank's micro-batches of each step, one after the other.

    Call it with the same pipeline and seed on all ranks.

    Args:
        dataset: A batched MindSpore pipeline. It is not changed.
        num: Micro-batches of a step over all ranks.
        mine: The numbers of this rank's.
        seed: Fixes the orders of all epochs.
        lengths: As for ``shard``.

    Raises:
        DataParallelError: If the pipeline is sharded already, or ``shard`` raises.
    """
    first = shard(dataset, num, mine[0], seed, lengths)
    if isinstance(first, ShardedByRow):
        return _RowsInTurn([first, *(shard(dataset, num, number, seed, lengths) for number in mine[1:])])
    if isinstance(first, ShardedByBatch):
        return _BatchesInTurn(first.whole, num, mine, seed)
    raise DataParallelError(
        "elastic_determinism: train_dataset is sharded already, so the rows of a step depend on the number of ranks. "
        "Give every rank the whole data set, or train without elastic_determinism."
    )


class _InTurn(ShardedDataset):
    is_elastic = True

    def reads_on(self, num_replicas, batch_size):
        """Whether as many micro-batches, of so many rows, are dealt out to so many ranks."""
        return batch_size == self.get_batch_size()


class _RowsInTurn(_InTurn):
    """A pipeline for each micro-batch, which reads its rows alone."""

    def __init__(self, shards: list[ShardedByRow]):
        super().__init__(shards[0].whole, 1)
        self._shards = shards
        self.num_rows = shards[0].num_rows

    def watch(self, columns, read_again):
        """Read the sample again after each epoch; the first pipeline does, before the others begin."""
        self._shards[0].watch(columns, read_again)
        self.witness = self._shards[0].witness

    @property
    def num_examples(self):
        """Rows that all ranks together read in an epoch."""
        return self._shards[0].num_examples

    def get_dataset_size(self):
        """Micro-steps of this rank in an epoch."""
        return len(self._shards) * self._shards[0].get_dataset_size()

    def _read(self, options):
        iterators = []
        for each in self._shards:
            each.set_epoch(self._epoch)
            each.start_at(self._epoch, self.num_skipped // len(self._shards))
            iterators.append(each.create_dict_iterator(**options))
        return self._in_turn(iterators)

    def _in_turn(self, iterators):
        for turn in zip(*iterators):
            for each, batch in zip(self._shards, turn):
                self.is_repeated = each.is_repeated
                yield batch


class _BatchesInTurn(_InTurn, ShardedByBatch):
    """Every rank runs the whole pipeline in the same order, and keeps its batches of each step."""

    def __init__(self, pipeline, num: int, mine: Sequence[int], seed: int):
        super().__init__(pipeline, num, mine[0], seed)
        self._mine = mine

    @property
    def num_examples(self):
        """Rows that all ranks together read in an epoch, counting each batch as full; None if unknown."""
        size = super().get_dataset_size()
        return None if size is None or size < 0 else size * self.get_batch_size() * self._num_replicas

    def get_dataset_size(self):
        """Micro-steps of this rank in an epoch."""
        size = super().get_dataset_size()
        return size if size is None or size < 0 else size * len(self._mine)

    def _take_turns(self, batches):
        batches = iter(batches)
        while group := list(islice(batches, self._num_replicas)):
            if len(group) < self._num_replicas and self._drop_last:
                return
            yield from (self._taken_from(group, number) for number in self._mine)
