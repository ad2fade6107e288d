"""Which rows a rank reads: torch's DistributedSampler as a MindSpore sampler, and one that groups rows by length."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from mindspore.dataset import Sampler, SubsetSampler

from mindnlp_dp_plugin.errors import DataParallelError


class DistributedSampler(Sampler):
    """Shards the rows of a data set: ranks take rows in turn, in an order that is the same on all ranks.

    The semantics are those of ``torch.utils.data.DistributedSampler``: rank ``r`` of ``N`` reads positions ``r``,
    ``r + N``, ``r + 2N``, ... of the epoch's order. If the rows do not divide by the ranks, the order is padded with
    its own beginning, or with ``drop_last`` its tail is cut, so that all ranks read equally many.

    Args:
        num_samples: Number of rows in the data set.
        num_replicas: Number of ranks.
        rank: This rank, from 0.
        shuffle: Whether to draw a new order for each epoch. If False, rows keep their order.
        seed: Fixes the order together with the epoch. Must be the same on all ranks.
        drop_last: Whether to leave rows out instead of reading some twice.
        shuffle_buffer: Shuffle only as far as a buffer of this many rows would; None shuffles the whole data set.
        batch_size: Rows in a batch of one rank. If given, a row is read twice only by a rank that would have a batch
            less than the others, and then alone in that batch (``repeats_last_batch``).

    Raises:
        DataParallelError: For a number outside its range.

    Examples:
        >>> sampler = dp.DistributedSampler(len(rows), dp.get_world_size(), dp.get_rank(), seed=0)
        >>> for epoch in range(3):
        ...     sampler.set_epoch(epoch)
        ...     for index in sampler:
        ...         row = rows[index]
    """

    def __init__(
        self,
        num_samples: int,
        num_replicas: int,
        rank: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        shuffle_buffer: int | None = None,
        batch_size: int | None = None,
    ):
        if num_samples < 1:
            raise DataParallelError(
                "num_samples={num_samples} leaves nothing to read: give a data set with rows.", num_samples=num_samples
            )
        check_rank(num_replicas, rank)
        if shuffle_buffer is not None and shuffle_buffer < 1:
            raise DataParallelError(
                "shuffle_buffer={shuffle_buffer} holds no row: give at least 1, or None for all.",
                shuffle_buffer=shuffle_buffer,
            )
        if batch_size is not None and batch_size < 1:
            raise DataParallelError("batch_size={batch_size} holds no row: give at least 1.", batch_size=batch_size)
        self._num_rows, self._batch_size = num_samples, batch_size
        self._num_replicas = num_replicas
        self._rank = rank
        self._shuffle_buffer = (num_samples if shuffle_buffer is None else shuffle_buffer) if shuffle else 1
        self._seed = seed
        self._drop_last = drop_last
        self._epoch = 0
        self._start = 0
        super().__init__()  # asks for the length

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next iteration. All ranks must set the same epoch."""
        self._epoch = epoch

    def start_at(self, position: int) -> None:
        """Skip this rank's first ``position`` rows in the next iterations. ``len`` still counts all of its rows."""
        self._start = position
        self.num_samples = len(self) - position

    def __iter__(self) -> Iterator[int]:
        order = self._order()
        total = len(self) * self._num_replicas
        dealt = itertools.islice(itertools.chain(order, itertools.cycle(self._padding(order))), total)
        first = self._rank + self._start * self._num_replicas
        return itertools.islice(dealt, first, None, self._num_replicas)

    def __len__(self) -> int:
        rows, rest = divmod(self._num_rows, self._num_replicas)
        if self._drop_last or not rest:
            return rows
        is_short = self._rank >= rest and self._batch_size is not None
        return rows if is_short and rows % self._batch_size else rows + 1

    @property
    def repeats_last_batch(self) -> bool:
        """Whether this rank's last batch is a row that another rank reads, so that all have as many batches."""
        rows, rest = divmod(self._num_rows, self._num_replicas)
        is_short = self._batch_size is not None and not self._drop_last and 0 < rest <= self._rank
        return is_short and rows % self._batch_size == 0

    def reads_on(self, num_replicas: int, batch_size: int) -> bool:
        """Whether so many ranks with batches of that size would have the same order."""
        return True

    def is_shuffled(self) -> bool:
        """Whether the order changes from epoch to epoch."""
        return self._shuffle_buffer > 1

    def is_sharded(self) -> bool:
        """Whether this sampler reads only some of the rows."""
        return self._num_replicas > 1

    def parse_for_minddataset(self):
        """What ``MindDataset`` calls instead of ``parse``: it reads rows by number but runs no Python sampler."""
        rows = SubsetSampler(list(self))
        rows.child_sampler = self.child_sampler
        return rows.parse_for_minddataset()

    def _order(self) -> list[int]:
        """The rows of the epoch."""
        return shuffled_order(self._num_rows, self._shuffle_buffer, self._seed, self._epoch)

    def _padding(self, order: list[int]) -> Iterable[int]:
        """The rows to read a second time, in this order."""
        return order


class DistributedLengthGroupedSampler(DistributedSampler):
    """Shards rows so that the rows of a step have similar lengths, within each rank and across ranks.

    No rank then waits for a rank with longer rows, and batches need little padding. The order is that of the Hugging
    Face Trainer (``DistributedLengthGroupedSampler`` in transformers' ``trainer_pt_utils``), but over the batches of
    all ranks: a permutation is cut into megabatches of up to 50 global batches, each is sorted by length, and the
    longest row comes first, so that memory runs out at once or never. The rest is as in ``DistributedSampler``, except
    that rows read twice come from the end of the order, where lengths match those of the rows they join.

    Args:
        lengths: The length of each row, in any unit. Must be the same on all ranks.
        num_replicas: Number of ranks.
        rank: This rank, from 0.
        batch_size: Rows in a batch of one rank.
        seed: Fixes the order together with the epoch. Must be the same on all ranks.
        drop_last: Whether to leave rows out instead of reading some twice.

    Raises:
        DataParallelError: For a number outside its range.

    Examples:
        >>> lengths = [len(tokens) for tokens in tokenized]
        >>> sampler = dp.DistributedLengthGroupedSampler(lengths, dp.get_world_size(), dp.get_rank(), batch_size=8)
    """

    def __init__(
        self,
        lengths: Sequence[int],
        num_replicas: int,
        rank: int,
        batch_size: int,
        seed: int = 0,
        drop_last: bool = False,
    ):
        self._lengths = np.asarray(lengths)
        super().__init__(len(lengths), num_replicas, rank, seed=seed, drop_last=drop_last, batch_size=batch_size)

    def reads_on(self, num_replicas, batch_size):
        """Whether their micro-steps have as many rows, by which the order is made."""
        return num_replicas * batch_size == self._num_replicas * self._batch_size

    def _order(self):
        return length_grouped_order(self._lengths, self._batch_size * self._num_replicas, self._seed, self._epoch)

    def _padding(self, order):
        return reversed(order)


class NumberedRows(SubsetSampler):
    """Reads the rows with the given numbers."""

    def __len__(self):
        return len(self.indices)


def check_rank(num_replicas: int, rank: int) -> None:
    """Reject a rank outside ``0 .. num_replicas - 1``.

    Raises:
        DataParallelError: If there are no ranks, or ``rank`` is not one of them.
    """
    if num_replicas < 1:
        raise DataParallelError("num_replicas={num_replicas} must be at least 1.", num_replicas=num_replicas)
    if not 0 <= rank < num_replicas:
        raise DataParallelError(
            "rank={rank} is not one of the {num_replicas} ranks: give 0 to {last}.",
            rank=rank,
            num_replicas=num_replicas,
            last=num_replicas - 1,
        )


def shuffled_order(num_samples: int, buffer_size: int, seed: int, epoch: int) -> list[int]:
    """The order in which a shuffle buffer returns rows.

    A buffer holds ``buffer_size`` rows; each step returns a random one and reads the next. A buffer of 1 keeps the
    order, and one that holds all rows draws a permutation.

    Args:
        num_samples: Number of rows.
        buffer_size: Number of rows the buffer holds, at least 1.
        seed: Fixes the order together with ``epoch``.
        epoch: Each epoch has its own order.

    Returns:
        The row numbers 0 to ``num_samples - 1``, each once.
    """
    if buffer_size == 1:
        return list(range(num_samples))
    random = np.random.default_rng((seed, epoch))
    if buffer_size >= num_samples:
        return random.permutation(num_samples).tolist()
    buffer = list(range(buffer_size))
    order = []
    for incoming, choice in zip(range(buffer_size, num_samples), random.integers(buffer_size, size=num_samples)):
        order.append(buffer[choice])
        buffer[choice] = incoming
    return order + random.permutation(buffer).tolist()


MOST_BATCHES = 50  # in a megabatch; more would group better and shuffle less
FEWEST_MEGABATCHES = 4  # so that small data sets are shuffled, too


def length_grouped_order(lengths: np.ndarray, batch_size: int, seed: int, epoch: int) -> list[int]:
    """A random order in which rows of similar length follow each other.

    Args:
        lengths: The length of each row.
        batch_size: Rows in a step, over all ranks.
        seed: Fixes the order together with ``epoch``.
        epoch: Each epoch has its own order.

    Returns:
        The row numbers 0 to ``len(lengths) - 1``, each once; the first is that of a longest row.
    """
    num_batches = min(len(lengths) // (batch_size * FEWEST_MEGABATCHES), MOST_BATCHES)
    size = max(num_batches, 1) * batch_size
    order = np.random.default_rng((seed, epoch)).permutation(len(lengths))
    for start in range(0, len(order), size):
        megabatch = order[start : start + size]
        megabatch[:] = megabatch[np.argsort(-lengths[megabatch], kind="stable")]
    longest = np.argmax(lengths[order[::size]]) * size
    order[[0, longest]] = order[[longest, 0]]
    return order.tolist()
