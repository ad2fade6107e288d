"""Shard a training pipeline: by row if its rows can be read by number, otherwise by batch."""

import copy
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mindspore import dataset as ds
from mindspore.dataset.engine import datasets

from mindnlp_dp_plugin.data.sampler import DistributedLengthGroupedSampler, DistributedSampler, check_rank
from mindnlp_dp_plugin.data.sharded import ShardedByBatch, ShardedByRow, ShardedByUser, ShardedDataset
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message

BATCHES = (ds.BatchDataset, ds.PaddedBatchDataset)
ROW_BY_ROW = (datasets.MapDataset, datasets.ProjectDataset, datasets.RenameDataset)
ShuffleDataset = datasets.ShuffleDataset


def shard(
    dataset: ds.Dataset, num_replicas: int, rank: int, seed: int = 0, lengths: Sequence[int] | None = None
) -> ShardedDataset:
    """The part of a pipeline that this rank reads. Call it with the same pipeline and seed on all ranks.

    A pipeline is sharded by row if each row stays one row between the source and the batch (map, project, rename,
    shuffle). A ``DistributedSampler`` on the source then lets a rank read and transform only its own rows, and step
    ``k`` of N ranks reads what step ``k`` of one process with N times the batch reads. Otherwise (filter, flat_map,
    repeat, skip, take, concat, iterable sources, your own random samplers) it is sharded by batch: every rank runs the
    whole pipeline with the same seed and takes every N-th batch. A pipeline that is sharded already is left alone.

    Rows are shuffled if the pipeline shuffles, with the same buffer size, and in a new order each epoch. The orders
    come from ``seed``, not from MindSpore's seed. Only operators that select rows at random, such as a random
    ``split()``, draw from MindSpore's seed, the same in each epoch, so that training rows stay out of the test half:
    set that seed to the same value on all ranks. Sharded by batch, such a pipeline has the same order each epoch, as it
    has without the plugin.

    Sharded by batch, MindSpore's operators draw the same random numbers on all ranks, and so does a Python source or
    sampler that draws from ``random`` or ``numpy.random`` before its first row. A Python function that draws from them
    later (a random filter) needs its own generator, seeded alike on all ranks. If you write a sampler class that reads
    only its rank's rows, let ``is_sharded()`` return True.

    With ``drop_remainder=True`` on the batch, rows that do not divide by the number of ranks are left out instead of
    read twice: 15 rows on 2 ranks in batches of 8 make no step, as they make none in one process with batches of 16.

    Args:
        dataset: A batched MindSpore pipeline. It is not changed. A result of ``shard`` is returned as it is.
        num_replicas: Number of ranks.
        rank: This rank, from 0.
        seed: Fixes the orders of all epochs.
        lengths: The length of each row, in the order in which the pipeline without its shuffles reads them. If given,
            rows of similar length are read together, by a ``DistributedLengthGroupedSampler``.

    Raises:
        DataParallelError: If ``rank`` is out of range, ``dataset`` is not a MindSpore pipeline, it cannot be grouped by
            ``lengths``, or it repeats passes of batches that do not divide among the ranks.

    Examples:
        >>> rows = dp.shard(batches, dp.get_world_size(), dp.get_rank(), seed=0)
        >>> for epoch in range(3):
        ...     for batch in rows.create_dict_iterator():
        ...         ...
    """
    check_rank(num_replicas, rank)
    if lengths is not None:
        return _shard_by_length(dataset, num_replicas, rank, seed, lengths)
    if isinstance(dataset, ShardedDataset):
        return dataset
    if not isinstance(dataset, ds.Dataset):
        raise DataParallelError("dataset is a {type}: give a mindspore.dataset pipeline.", type=type(dataset).__name__)
    pipeline = copy.deepcopy(dataset)
    if is_sharded_by_user(pipeline):
        return ShardedByUser(pipeline, num_replicas)
    plan = plan_by_row(pipeline)
    if plan is None:
        require_whole_passes(pipeline, num_replicas)
        return ShardedByBatch(pipeline, num_replicas, rank, seed)
    num_rows = plan.source.get_dataset_size()
    sampler = DistributedSampler(
        num_rows,
        num_replicas,
        rank,
        plan.shuffle_buffer > 1,
        seed,
        plan.drop_last,
        plan.shuffle_buffer,
        plan.batch_size,
    )
    return ShardedByRow(with_sampler(plan, sampler), num_replicas, sampler, num_rows, seed)


def _shard_by_length(dataset, num_replicas, rank, seed, lengths):
    plan = plan_to_group(dataset)
    num_rows = plan.source.get_dataset_size()
    if len(lengths) != num_rows:
        raise DataParallelError(
            "lengths has {num_lengths} entries for {num_rows} rows: give one for each row.",
            num_lengths=len(lengths),
            num_rows=num_rows,
        )
    batch_size = plan.path[0].get_batch_size()
    sampler = DistributedLengthGroupedSampler(lengths, num_replicas, rank, batch_size, seed, plan.drop_last)
    return ShardedByRow(with_sampler(plan, sampler), num_replicas, sampler, num_rows, seed)


def plan_to_group(dataset: ds.Dataset | ShardedDataset) -> "_Plan":
    """How to read the rows of a copy of ``dataset`` in an order the plugin chooses.

    Raises:
        DataParallelError: If its rows cannot be reordered.
    """
    is_sharded = isinstance(dataset, ShardedDataset) or is_sharded_by_user(dataset)
    plan = None if is_sharded else plan_by_row(copy.deepcopy(dataset))
    if plan is None:
        reason = Message("it is sharded already") if is_sharded else Message("its rows cannot be read by number")
        raise DataParallelError(
            "train_dataset cannot be grouped by length: {reason}. Set group_by_length=False, or use a source with "
            "__getitem__ and __len__ that is only mapped, shuffled and batched.",
            reason=reason,
        )
    return plan


@dataclass
class _Plan:
    """The operators from the batch down to the source."""

    path: list
    shuffle_buffer: int
    drop_last: bool
    batch_size: int

    @property
    def source(self):
        return self.path[-1]

    @property
    def before_batching(self):
        """The part of the path on which rows are single."""
        batches = [place for place, node in enumerate(self.path) if isinstance(node, BATCHES)]
        return self.path[batches[0] + 1 :] if batches else self.path


def plan_by_row(pipeline) -> _Plan | None:
    """How to shard this pipeline by row, or None if it can only be sharded by batch."""
    path, batches, shuffles = [pipeline], [], []
    while path[-1].children:
        node = path[-1]
        if isinstance(node, ShuffleDataset):
            shuffles.append(node)
        elif isinstance(node, BATCHES):
            if batches or shuffles or node.batch_size_func is not None:
                return None
            batches.append(node)
        elif not isinstance(node, ROW_BY_ROW):
            return None
        path.append(node.children[0])
    source = path[-1]
    if not _reads_rows_by_number(source):
        return None
    buffers = [shuffle.buffer_size for shuffle in shuffles]
    if _is_plain_random(source.sampler):
        buffers.append(source.get_dataset_size())
    elif not _has_fixed_order(source.sampler):
        return None
    batch_size, drop_last = (batches[0].batch_size, batches[0].drop_remainder) if batches else (1, False)
    return _Plan(path, max(buffers, default=1), drop_last, batch_size)


def with_sampler(plan: _Plan, sampler):
    """The planned pipeline with ``sampler`` on its source, and without its shuffles, which the sampler replaces."""
    if _is_plain_random(plan.source.sampler) or _is_plain_sequential(plan.source.sampler):
        plan.source.use_sampler(sampler)
    else:
        plan.source.add_sampler(sampler)
    kept = [node for node in plan.path if not isinstance(node, ShuffleDataset)]
    for parent, child in pairwise(kept):
        parent.children, child.parent = [child], [weakref.ref(parent)]
    for node in kept:
        node.dataset_size = None  # cached for the whole data
    kept[0].parent = []
    return kept[0]


def require_whole_passes(pipeline: ds.Dataset, num_replicas: int) -> None:
    """Raise a DataParallelError if a step would take batches of two passes, which one process reads apart."""
    node, is_repeated = pipeline, False
    while isinstance(node, (datasets.RepeatDataset, *ROW_BY_ROW)):
        is_repeated |= getattr(node, "count", 1) != 1
        node = node.children[0]
    if not (is_repeated and isinstance(node, BATCHES) and plan_by_row(node)):
        return
    num_batches = node.get_dataset_size()
    if num_batches % num_replicas:
        raise DataParallelError(
            "The data set repeats passes of {num_batches} batches (.batch().repeat()), which {ranks} ranks cannot "
            "divide: a step would take batches of two passes. Put .repeat() before .batch(), or leave it out and let "
            "the loop make the passes.",
            num_batches=num_batches,
            ranks=num_replicas,
        )


def is_sharded_by_user(node) -> bool:
    """Whether the pipeline's source already reads only some of its rows."""
    if isinstance(node, ds.GeneratorDataset) and not _reads_rows_by_number(node):
        return False  # such a source reads all its rows, whatever its sampler says
    return any(map(is_sharded_by_user, node.children)) if node.children else node.is_sharded()


def _reads_rows_by_number(source):
    if isinstance(source, ds.GeneratorDataset):
        return hasattr(source.source, "__getitem__") and not source.has_batch_sampler
    return isinstance(source, datasets.MappableDataset)


def _is_plain_random(sampler):
    """Whether the sampler draws a permutation of all rows, as ``shuffle=True`` does; the plugin draws its own."""
    return (
        type(sampler) is ds.RandomSampler
        and getattr(sampler, "shuffle", ds.Shuffle.GLOBAL) in (ds.Shuffle.GLOBAL, ds.Shuffle.ADAPTIVE)
        and not sampler.replacement
        and sampler.num_samples is None
        and sampler.reshuffle_each_epoch
        and sampler.child_sampler is None
    )


def _is_plain_sequential(sampler):
    return type(sampler) is ds.SequentialSampler and sampler.start_index is None and sampler.num_samples is None


def _has_fixed_order(sampler):
    """Whether the sampler gives the same rows in the same order each epoch, as after ``split()``."""
    while sampler is not None:
        fixed_random = type(sampler) is ds.RandomSampler and not sampler.reshuffle_each_epoch
        if type(sampler) not in (ds.SequentialSampler, ds.SubsetSampler) and not fixed_random:
            return False
        sampler = sampler.child_sampler
    return True
