"""Which rows a rank reads: torch's DistributedSampler, as a sampler of MindSpore's."""

import itertools
from collections.abc import Iterator

import numpy as np
from mindspore.dataset import Sampler, SubsetSampler

from mindnlp_dp_plugin.errors import DataParallelError


class DistributedSampler(Sampler):
    """Deals the rows of a data set out to ranks, one row each in turn, in an order all ranks agree on.

    The semantics are those of ``torch.utils.data.DistributedSampler``: rank ``r`` of ``N`` reads positions ``r``,
    ``r + N``, ``r + 2N``, ... of the epoch's order. If the rows do not divide by the ranks, the order is padded with
    its own beginning, or with ``drop_last`` its tail is cut, so that all ranks read equally many.

    Args:
        num_samples: Rows of the data set.
        num_replicas: Ranks.
        rank: Which of them reads, from 0.
        shuffle: Whether to draw a new order for each epoch; in the rows' own order otherwise.
        seed: Together with the epoch it fixes the order. Must be the same on all ranks.
        drop_last: Whether to leave rows out rather than read some twice.
        shuffle_buffer: Shuffle no more than a buffer of this many rows would; the whole data set if None.

    Raises:
        DataParallelError: For a number outside its range.
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
    ):
        if num_samples < 1:
            raise DataParallelError(f"num_samples={num_samples} leaves nothing to read: give a data set with rows.")
        check_rank(num_replicas, rank)
        if shuffle_buffer is not None and shuffle_buffer < 1:
            raise DataParallelError(f"shuffle_buffer={shuffle_buffer} holds no row: give at least 1, or None for all.")
        self._num_rows = num_samples
        self._num_replicas = num_replicas
        self._rank = rank
        self._shuffle_buffer = (num_samples if shuffle_buffer is None else shuffle_buffer) if shuffle else 1
        self._seed = seed
        self._drop_last = drop_last
        self._epoch = 0
        self._start = 0
        super().__init__()  # asks for the length

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of the next iteration. To be given the same epoch on all ranks."""
        self._epoch = epoch

    def start_at(self, position: int) -> None:
        """Leave out the first of this rank's rows in the iterations to come; the length stays that of all of them."""
        self._start = position
        self.num_samples = len(self) - position

    def __iter__(self) -> Iterator[int]:
        order = shuffled_order(self._num_rows, self._shuffle_buffer, self._seed, self._epoch)
        total = len(self) * self._num_replicas
        dealt = itertools.islice(itertools.cycle(order), total)
        first = self._rank + self._start * self._num_replicas
        return itertools.islice(dealt, first, None, self._num_replicas)

    def __len__(self) -> int:
        share, rest = divmod(self._num_rows, self._num_replicas)
        return share if self._drop_last or not rest else share + 1

    def is_shuffled(self) -> bool:
        """Whether the order changes from epoch to epoch."""
        return self._shuffle_buffer > 1

    def is_sharded(self) -> bool:
        """Whether this is a part of the rows."""
        return self._num_replicas > 1

    def parse_for_minddataset(self):
        """What ``MindDataset`` asks for in place of ``parse``: it reads numbered rows, but runs no Python sampler."""
        rows = SubsetSampler(list(self))
        rows.child_sampler = self.child_sampler
        return rows.parse_for_minddataset()


def check_rank(num_replicas: int, rank: int) -> None:
    """Refuse a rank that is none.

    Raises:
        DataParallelError: If there are no ranks, or ``rank`` is not one of them.
    """
    if num_replicas < 1:
        raise DataParallelError(f"num_replicas={num_replicas} leaves nobody to read: give at least 1.")
    if not 0 <= rank < num_replicas:
        raise DataParallelError(f"rank={rank} is not one of the {num_replicas} ranks: give 0 to {num_replicas - 1}.")


def shuffled_order(num_samples: int, buffer_size: int, seed: int, epoch: int) -> list[int]:
    """The order in which a shuffle buffer lets rows out.

    A buffer holds ``buffer_size`` rows; each step lets one out at random and takes the next in. A buffer of 1 keeps
    the order, and one that holds all rows draws a permutation.

    Args:
        num_samples: Rows.
        buffer_size: Rows the buffer holds, at least 1.
        seed: Fixes the order together with ``epoch``.
        epoch: Another epoch, another order.

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
