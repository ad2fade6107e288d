"""The part of a pipeline that a rank reads, in the form that the Trainer wants."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, islice

import numpy as np
from mindspore import dataset as ds
from mindspore.dataset.engine import datasets

from mindnlp_dp_plugin.data import own_order
from mindnlp_dp_plugin.data.sampler import DistributedSampler
from mindnlp_dp_plugin.data.witness import Witness

NO_SEED = 5489  # with this one, its default, MindSpore draws differently each time


class ShardedDataset(ABC):
    """Behaves like a batched pipeline: a length in batches, and a new iterator for each epoch.

    Attributes:
        num_rows: Rows of the whole data set, before sharding, padding or dropping; None if unknown.
        is_elastic: Whether its batches do not depend on the number of ranks, but on that of a step's micro-batches.
        witness: What this rank has read of what all ranks read.
        is_repeated: Whether the batch just read is another rank's, too, so that all read as many; it counts nothing.
    """

    num_rows: int | None = None
    is_elastic = is_repeated = False

    def __init__(self, pipeline: ds.Dataset, num_replicas: int):
        self._pipeline = pipeline
        self._num_replicas = num_replicas
        self._epoch = 0
        self._begins_after = (0, 0)
        self._is_at_end = False
        self.witness = Witness()

    @property
    def whole(self) -> ds.Dataset:
        """What this rank runs."""
        return self._pipeline

    @property
    def epoch(self) -> int:
        """The epoch whose order the next iterator has."""
        return self._epoch

    @property
    def num_skipped(self) -> int:
        """Number of batches the next iterator skips because they were trained before."""
        epoch, num_batches = self._begins_after
        return num_batches if epoch == self._epoch else 0

    @property
    def num_steps(self) -> int | None:
        """Micro-steps in a whole epoch; None if unknown."""
        try:
            return len(self)
        except TypeError:
            return None

    def start_at(self, epoch: int, num_batches: int, is_at_end: bool = False) -> None:
        """Begin ``epoch`` after its first ``num_batches`` batches. The length stays that of a whole epoch.

        Args:
            epoch: The epoch, from 0.
            num_batches: How many batches of this rank were read.
            is_at_end: No more of them are wanted.
        """
        self._begins_after = (epoch, num_batches)
        self._is_at_end = is_at_end

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next iterator. All ranks must set the same epoch."""
        self._epoch = epoch

    def watch(self, columns: set[str], read_again: Callable[[], own_order.Reading]) -> None:
        """Let ``witness`` see what ranks can compare.

        Args:
            columns: Those that tell rows apart, and are not random by design.
            read_again: Reads the sample that ranks have compared, as it is then: used if what is read anyway is this
                rank's alone.
        """
        self.witness.columns = columns

    def reads_on(self, num_replicas: int, batch_size: int) -> bool:
        """Whether so many ranks with batches of that size would have read the rows of an epoch in the same order.

        Then these ranks can go on in the middle of it.
        """
        return (num_replicas, batch_size) == (self._num_replicas, self.get_batch_size())

    def __len__(self) -> int:
        size = self.get_dataset_size()
        if size is None or size < 0:
            raise TypeError("the length of this data set is not known")
        return size

    def get_dataset_size(self) -> int:
        """Batches this rank reads in an epoch.

        If a pipeline's length is unknown (a generator function, a filter), MindSpore runs one epoch to count the
        batches, once, as it does without the plugin.
        """
        return self._pipeline.get_dataset_size()

    def get_batch_size(self) -> int:
        """Rows in a batch of this rank."""
        return self._pipeline.get_batch_size()

    def get_col_names(self) -> list[str]:
        """The columns' names."""
        return self._pipeline.get_col_names()

    @property
    def num_examples(self) -> int | None:
        """Rows that all ranks together read in an epoch, counting each batch as full.

        None if the length is unknown.
        """
        steps = self.num_steps
        return None if steps is None else steps * self.get_batch_size() * self._num_replicas

    def create_dict_iterator(self, **options) -> Iterator[dict]:
        """This rank's batches of one epoch, as column name to value.

        Args:
            **options: Those of MindSpore's ``Dataset.create_dict_iterator``.
        """
        if self._is_at_end and self._begins_after[0] == self._epoch:
            return iter(())
        return self._read(options)

    @abstractmethod
    def _read(self, options):
        """The batches of this epoch that are not skipped."""

    def create_tuple_iterator(self, columns: list[str] | None = None, **options) -> Iterator[list]:
        """This rank's batches of one epoch, as lists of values.

        Args:
            columns: Which columns, in which order; all of them if None.
            **options: Those of MindSpore's ``Dataset.create_dict_iterator``.
        """
        columns = columns or self.get_col_names()
        batches = self.create_dict_iterator(**options)
        return ([batch[column] for column in columns] for batch in batches)

    def _open(self, options):
        for sampler in _samplers(self._pipeline):
            if isinstance(sampler, DistributedSampler):
                sampler.set_epoch(self._epoch)  # before the iterator, which copies the pipeline
        return self._pipeline.create_dict_iterator(**{"num_epochs": 1, **options})

    def _start(self, options, seed):
        """An iterator over a pipeline whose random operators draw from ``seed``."""
        with drawing_from(seed):
            batches = iter(self._open(options))
            first = next(batches, None)  # operators draw their seed when they start: before the first batch
        return iter(()) if first is None else chain([first], batches)


class ShardedByRow(ShardedDataset):
    """Sharded by row: the source reads only this rank's rows."""

    def __init__(self, pipeline, num_replicas, sampler: DistributedSampler, num_rows: int, seed: int):
        super().__init__(pipeline, num_replicas)
        self._sampler = sampler
        self._seed = seed
        self._read_sample_again: Callable[[], own_order.Reading] | None = None
        self._has_ended = False
        self.num_rows = num_rows

    @property
    def num_examples(self) -> int:
        """Rows that all ranks together read in an epoch."""
        return min(self.num_rows, len(self) * self.get_batch_size() * self._num_replicas)

    def get_dataset_size(self) -> int:
        """Batches this rank reads in an epoch."""
        return super().get_dataset_size() if len(self._sampler) else 0

    def watch(self, columns, read_again):
        """Read the sample again after each epoch, while no iterator is open; files do not change."""
        super().watch(columns, read_again)
        if isinstance(list(nodes(self._pipeline))[-1], ds.GeneratorDataset):
            self._read_sample_again = read_again

    def reads_on(self, num_replicas, batch_size):
        """Whether so many ranks with batches of that size would have read the rows of an epoch in the same order."""
        return self._sampler.reads_on(num_replicas, batch_size)

    def _read(self, options):
        if not len(self._sampler) or self.num_skipped == len(self):  # MindSpore fails for a sampler without rows
            return iter(())
        if self._has_ended:
            self._has_ended = False
            self.witness.see(self._read_sample_again())
        if self.num_skipped:
            self._sampler.start_at(self.num_skipped * self.get_batch_size())
        try:
            return self._noting_the_end(self._create(options), self.num_skipped)
        finally:
            if self.num_skipped:
                self._sampler.start_at(0)  # the iterator has a copy

    def _noting_the_end(self, batches, num_skipped):
        repeated = len(self) - 1 if getattr(self._sampler, "repeats_last_batch", False) else None
        for number, batch in enumerate(batches, num_skipped):
            self.is_repeated = number == repeated
            yield batch
        self._has_ended = self._read_sample_again is not None

    def _create(self, options):
        if _selects_at_random(self._pipeline):
            return self._start(options, _seed_of_selections(self._seed))
        return self._open(options)


class ShardedByBatch(ShardedDataset):
    """Sharded by batch: every rank runs the whole pipeline in the same order and takes every N-th batch.

    If too few batches for all ranks remain at the end, some are read twice, or all are left out if the pipeline drops
    remainders.
    """

    def __init__(self, pipeline, num_replicas, rank: int, seed: int):
        super().__init__(pipeline, num_replicas)
        self._rank = rank
        self._seed = seed
        self._drop_last = _drops_remainder(pipeline)

    def get_dataset_size(self) -> int:
        """Batches this rank reads in an epoch."""
        with drawing_from(self._seed_of_epoch(0)):  # MindSpore may count, and the count may depend on chance
            size = self._pipeline.get_dataset_size()
        if size is None or size < 0:
            return size
        return size // self._num_replicas if self._drop_last else -(-size // self._num_replicas)

    def reads_on(self, num_replicas, batch_size):
        """Whether their batches are these: the pipeline may do anything with rows before it batches them."""
        return batch_size == self.get_batch_size()

    def _read(self, options):
        return islice(self._take_turns(self._all_batches(options)), self.num_skipped, None)

    def _take_turns(self, batches):
        group = []
        for batch in batches:
            group.append(batch)
            if len(group) == self._num_replicas:
                yield self._taken_from(group, self._rank)
                group = []
        if group and not self._drop_last:
            yield self._taken_from(group, self._rank)

    def _taken_from(self, group, number):
        """A batch of a turn; where the turn has too few, one that is taken twice."""
        self.is_repeated = number >= len(group)
        return dict(group[number % len(group)])  # whoever has it changes its own

    def _all_batches(self, options):
        return map(self._seen, self._start(options, self._seed_of_epoch(self._epoch)))

    def _seen(self, batch):
        self.witness.see(batch)
        return batch

    def _seed_of_epoch(self, epoch):
        # All operators of a pipeline draw from one seed: a new order would also select other rows.
        if _selects_at_random(self._pipeline):
            return _seed_of_selections(self._seed)
        return _mix(self._seed, epoch)


class ShardedByUser(ShardedDataset):
    """A pipeline that the user sharded: left as it is."""

    def _read(self, options):
        return islice(self._open(options), self.num_skipped, None)


def _samplers(pipeline):
    for node in nodes(pipeline):
        yield from _chain_of_samplers(node)


def nodes(pipeline: ds.Dataset) -> Iterator[ds.Dataset]:
    """The operators of a pipeline, from the last down to its sources."""
    yield pipeline
    for child in pipeline.children:
        yield from nodes(child)


def _chain_of_samplers(source):
    sampler = getattr(source, "sampler", None)
    while sampler is not None:
        yield sampler
        sampler = sampler.child_sampler


def _selects_at_random(node):
    """Whether chance decides which rows are read, not only their order: a random ``split()``, or shuffle and take."""
    if isinstance(node, datasets.TakeDataset | datasets.SkipDataset) and node.is_shuffled():
        return True
    selected = list(_chain_of_samplers(node))[1:]
    return any(sampler.is_shuffled() for sampler in selected) or any(map(_selects_at_random, node.children))


def _drops_remainder(node):
    """Whether the last batch operator drops the remainder."""
    while node.children and not hasattr(node, "drop_remainder"):
        node = node.children[0]
    return getattr(node, "drop_remainder", False)


def _seed_of_selections(seed):
    """MindSpore's seed, from which the other half of a ``split()`` is drawn; a common one if the user set none."""
    own = ds.config.get_seed()
    return _mix(seed, 0) if own == NO_SEED else own


def _mix(seed, epoch):
    return int(np.random.SeedSequence((seed, epoch)).generate_state(1)[0]) | 2**31  # large, so never NO_SEED


@contextmanager
def drawing_from(seed):
    """Let pipelines that start here draw from ``seed``, and leave the user's random streams as they were."""
    found = ds.config.get_seed(), random.getstate(), np.random.get_state()
    ds.config.set_seed(seed)
    try:
        yield
    finally:
        ds.config.set_seed(found[0])
        random.setstate(found[1])
        np.random.set_state(found[2])
