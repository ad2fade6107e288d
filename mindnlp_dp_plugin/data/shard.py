"""Deal a training pipeline out to the ranks: by row where that can be done, by batch where it cannot."""

import copy
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mindspore import dataset as ds
from mindspore.dataset.engine import datasets

from mindnlp_dp_plugin.data.sampler import DistributedLengthGroupedSampler, DistributedSampler, check_rank
from mindnlp_dp_plugin.data.sharded import DealtByBatch, DealtByRow, ShardedByUser, ShardedDataset
from mindnlp_dp_plugin.errors import DataParallelError

BATCHES = (ds.BatchDataset, ds.PaddedBatchDataset)
ROW_BY_ROW = (datasets.MapDataset, datasets.ProjectDataset, datasets.RenameDataset)
ShuffleDataset = datasets.ShuffleDataset


def shard(
    dataset: ds.Dataset, num_replicas: int, rank: int, seed: int = 0, lengths: Sequence[int] | None = None
) -> ShardedDataset:
    """This rank's share of a pipeline. Call it with the same pipeline and seed on all ranks.

    By row, where between the source and the batch each row stays one row (map, project, rename, shuffle): a
    ``DistributedSampler`` on the source, so that a rank reads and transforms only its own rows, and step ``k`` of N
    ranks reads what step ``k`` of one process with N times the batch reads. By batch otherwise (filter, flat_map,
    repeat, skip, take, concat, iterable sources, random samplers of the user's own): every rank runs the whole
    pipeline, with the same seed, and takes each N-th batch. A pipeline that is sharded already is left alone.

    Shuffled exactly where the pipeline shuffles, with its own buffer size, and then anew each epoch; the orders come
    from ``seed``, not from one set in MindSpore. Only what selects rows at random, a random ``split()`` above all, is
    drawn from MindSpore's own seed, the same each epoch, so that training rows stay out of the test half: set that
    seed alike on all ranks. Dealt by batch, such a pipeline has the same order each epoch, as it has without us.

    By batch, randomness of MindSpore's operators is the same on all ranks, and so is what a Python source or sampler
    draws from ``random`` or ``numpy.random`` before its first row. A Python function that draws from them all along
    (a random filter) must bring a generator of its own, seeded alike on all ranks. A sampler class of the user's own
    that reads only its rank's rows must say so: ``is_sharded()`` returns True.

    With ``drop_remainder=True`` on the batch, rows that do not divide by the ranks are left out instead of read
    twice: 15 rows on 2 ranks in batches of 8 are no step at all, as they are none in one process with batches of 16.

    Args:
        dataset: A batched MindSpore pipeline. It is not changed. What ``shard`` returned is returned again.
        num_replicas: Ranks.
        rank: Which of them this is, from 0.
        seed: Fixes the orders of all epochs.
        lengths: The length of each row, in the order in which the pipeline without its shuffles reads them. If given,
            rows of similar length are read together, by a ``DistributedLengthGroupedSampler``.

    Raises:
        DataParallelError: If ``rank`` is none of the ranks, ``dataset`` is no MindSpore pipeline, or it cannot be
            grouped by ``lengths``.
    """
    check_rank(num_replicas, rank)
    if lengths is not None:
        return _shard_by_length(dataset, num_replicas, rank, seed, lengths)
    if isinstance(dataset, ShardedDataset):
        return dataset
    if not isinstance(dataset, ds.Dataset):
        raise DataParallelError(f"dataset is a {type(dataset).__name__}: give a pipeline of mindspore.dataset.")
    pipeline = copy.deepcopy(dataset)
    if is_sharded_by_user(pipeline):
        return ShardedByUser(pipeline, num_replicas)
    plan = plan_by_row(pipeline)
    if plan is None:
        return DealtByBatch(pipeline, num_replicas, rank, seed)
    num_rows = plan.source.get_dataset_size()
    sampler = DistributedSampler(
        num_rows, num_replicas, rank, plan.shuffle_buffer > 1, seed, plan.drop_last, plan.shuffle_buffer
    )
    return DealtByRow(deal_rows(plan, sampler), num_replicas, sampler, num_rows, seed)


def _shard_by_length(dataset, num_replicas, rank, seed, lengths):
    plan = plan_to_group(dataset)
    num_rows = plan.source.get_dataset_size()
    if len(lengths) != num_rows:
        raise DataParallelError(f"lengths has {len(lengths)} entries for {num_rows} rows: give one for each row.")
    batch_size = plan.path[0].get_batch_size()
    sampler = DistributedLengthGroupedSampler(lengths, num_replicas, rank, batch_size, seed, plan.drop_last)
    return DealtByRow(deal_rows(plan, sampler), num_replicas, sampler, num_rows, seed)


def plan_to_group(dataset: ds.Dataset | ShardedDataset) -> "_Plan":
    """How to deal out the rows of a copy of ``dataset`` in an order of the plugin's own.

    Raises:
        DataParallelError: If that cannot be done.
    """
    is_sharded = isinstance(dataset, ShardedDataset) or is_sharded_by_user(dataset)
    plan = None if is_sharded else plan_by_row(copy.deepcopy(dataset))
    if plan is None:
        reason = "it is sharded already" if is_sharded else "its rows cannot be read by number, each once"
        raise DataParallelError(
            f"train_dataset cannot be grouped by length: {reason}. Set group_by_length=False, or hand over a source "
            "with __getitem__ and __len__ that is only mapped, shuffled and batched."
        )
    return plan


@dataclass
class _Plan:
    """What was found on the way down from the batch to the source."""

    path: list
    shuffle_buffer: int
    drop_last: bool

    @property
    def source(self):
        return self.path[-1]

    @property
    def before_batching(self):
        """The part of the path on which rows are single."""
        batches = [place for place, node in enumerate(self.path) if isinstance(node, BATCHES)]
        return self.path[batches[0] + 1 :] if batches else self.path


def plan_by_row(pipeline) -> _Plan | None:
    """How to deal the rows out, or None if this pipeline has to be dealt out by batch."""
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
    return _Plan(path, max(buffers, default=1), bool(batches) and batches[0].drop_remainder)


def deal_rows(plan: _Plan, sampler):
    """The planned pipeline with our sampler on its source, and without its shuffles, which are in the sampler now."""
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


def is_sharded_by_user(node) -> bool:
    """Whether the pipeline's source reads a part of its rows already."""
    if isinstance(node, ds.GeneratorDataset) and not _reads_rows_by_number(node):
        return False  # such a source reads all its rows, whatever its sampler says
    return any(map(is_sharded_by_user, node.children)) if node.children else node.is_sharded()


def _reads_rows_by_number(source):
    if isinstance(source, ds.GeneratorDataset):
        return hasattr(source.source, "__getitem__") and not source.has_batch_sampler
    return isinstance(source, datasets.MappableDataset)


def _is_plain_random(sampler):
    """A permutation of all rows: what ``shuffle=True`` means, and what the plugin draws in its place."""
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
