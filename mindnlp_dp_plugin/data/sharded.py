"""A rank's share of a pipeline, as the Trainer reads it."""

import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from mindspore import dataset as ds

from mindnlp_dp_plugin.data.sampler import DistributedSampler


class ShardedDataset(ABC):
    """Stands in for a batched pipeline: a length in batches, and a new iterator for each epoch.

    Attributes:
        num_rows: Rows of the whole data set, before any is dealt, padded or left out; None if that is not known.
    """

    num_rows: int | None = None

    def __init__(self, pipeline: ds.Dataset, num_replicas: int):
        self._pipeline = pipeline
        self._num_replicas = num_replicas
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next iterator. To be given the same epoch on all ranks."""
        self._epoch = epoch

    def __len__(self) -> int:
        size = self.get_dataset_size()
        if size is None or size < 0:
            raise TypeError("the length of this data set is not known")
        return size

    def get_dataset_size(self) -> int:
        """Batches this rank reads in an epoch."""
        return self._pipeline.get_dataset_size()

    def get_batch_size(self) -> int:
        """Rows in a batch of this rank."""
        return self._pipeline.get_batch_size()

    def get_col_names(self) -> list[str]:
        """The columns' names."""
        return self._pipeline.get_col_names()

    @property
    def num_examples(self) -> int:
        """Rows all ranks read in an epoch together, as far as batches tell: the last may be smaller."""
        return len(self) * self.get_batch_size() * self._num_replicas

    @abstractmethod
    def create_dict_iterator(self, **options) -> Iterator[dict]:
        """This rank's batches of one epoch, as column name to value.

        Args:
            **options: Those of MindSpore's ``Dataset.create_dict_iterator``.
        """


class DealtByRow(ShardedDataset):
    """The source itself reads only this rank's rows."""

    def __init__(self, pipeline, num_replicas, sampler: DistributedSampler, num_rows: int):
        super().__init__(pipeline, num_replicas)
        self._sampler = sampler
        self.num_rows = num_rows

    @property
    def num_examples(self) -> int:
        """Rows all ranks read in an epoch together; rows read twice count twice."""
        return min(len(self._sampler), len(self) * self.get_batch_size()) * self._num_replicas

    def get_dataset_size(self) -> int:
        """Batches this rank reads in an epoch; MindSpore cannot be asked about none."""
        return super().get_dataset_size() if len(self._sampler) else 0

    def create_dict_iterator(self, **options):
        """This rank's batches of one epoch, as column name to value."""
        if not len(self._sampler):
            return iter(())
        self._sampler.set_epoch(self._epoch)  # before the iterator, which copies the pipeline
        return self._pipeline.create_dict_iterator(**{"num_epochs": 1, **options})


class DealtByBatch(ShardedDataset):
    """Every rank runs the whole pipeline, in the same order, and takes each N-th batch.

    Batches that are left at the end, too few for all ranks, are dealt out again until each rank has one, or left out
    if the pipeline drops remainders.
    """

    def __init__(self, pipeline, num_replicas, rank: int, seed: int):
        super().__init__(pipeline, num_replicas)
        self._rank = rank
        self._seed = seed
        self._drop_last = bool(getattr(pipeline, "drop_remainder", False))

    def get_dataset_size(self) -> int:
        """Batches this rank reads in an epoch."""
        size = self._pipeline.get_dataset_size()
        if size is None or size < 0:
            return size
        return size // self._num_replicas if self._drop_last else -(-size // self._num_replicas)

    def create_dict_iterator(self, **options):
        """This rank's batches of one epoch, as column name to value."""
        group = []
        for batch in self._all_batches(options):
            group.append(batch)
            if len(group) == self._num_replicas:
                yield group[self._rank]
                group = []
        if group and not self._drop_last:
            yield group[self._rank % len(group)]

    def _all_batches(self, options):
        with _drawing_from(self._seed + self._epoch):
            batches = iter(self._pipeline.create_dict_iterator(**{"num_epochs": 1, **options}))
            first = next(batches, None)  # operators draw their seed when they start, which the first batch proves
        if first is not None:
            yield first
            yield from batches


class ShardedByUser(ShardedDataset):
    """Left as it is."""

    def create_dict_iterator(self, **options):
        """The batches of the user's own shard."""
        for sampler in _samplers(self._pipeline):
            if isinstance(sampler, DistributedSampler):
                sampler.set_epoch(self._epoch)
        return self._pipeline.create_dict_iterator(**{"num_epochs": 1, **options})


def _samplers(pipeline):
    sampler = getattr(pipeline, "sampler", None)
    while sampler is not None:
        yield sampler
        sampler = sampler.child_sampler
    for child in pipeline.children:
        yield from _samplers(child)


@contextmanager
def _drawing_from(seed):
    """Let pipelines that start here draw from ``seed``; the user's own random streams go on as if nothing was."""
    found = ds.config.get_seed(), random.getstate(), np.random.get_state()
    ds.config.set_seed(seed % 2**32)
    try:
        yield
    finally:
        ds.config.set_seed(found[0])
        random.setstate(found[1])
        np.random.set_state(found[2])
