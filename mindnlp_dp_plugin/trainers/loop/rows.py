"""A rank's rows in a loop of one's own: each iterator is an epoch, and evaluation rows are scored in turns."""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.data.evaluation import EvaluationShard
from mindnlp_dp_plugin.data.sharded import ShardedDataset
from mindnlp_dp_plugin.distributed.turns import turns
from mindnlp_dp_plugin.language import Message


class Rows(ABC):
    """What both kinds share: they are read as MindSpore's data sets are.

    Args:
        dataset: This rank's part.
    """

    def __init__(self, dataset: ShardedDataset):
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __iter__(self) -> Iterator[list]:
        return self.create_tuple_iterator(num_epochs=1)

    def get_dataset_size(self) -> int:
        """Batches that this rank reads."""
        return self._dataset.get_dataset_size()

    def get_batch_size(self) -> int:
        """Rows in a batch of this rank."""
        return self._dataset.get_batch_size()

    def get_col_names(self) -> list[str]:
        """The columns' names."""
        return self._dataset.get_col_names()

    def create_tuple_iterator(self, columns: list[str] | None = None, num_epochs: int = -1, **options) -> "Passes":
        """The batches, as lists of values; as of MindSpore's ``Dataset``."""
        columns = columns or self.get_col_names()
        return Passes(lambda: ([batch[column] for column in columns] for batch in self._pass(**options)), num_epochs)

    def create_dict_iterator(self, num_epochs: int = -1, **options) -> "Passes":
        """The batches, as column name to value; as of MindSpore's ``Dataset``."""
        return Passes(lambda: self._pass(**options), num_epochs)

    @abstractmethod
    def _pass(self, **options) -> Iterator[dict]:
        """The batches of one pass."""


class Passes:
    """As MindSpore's iterators: who goes on behind the end of a pass begins the next.

    Args:
        begin: Begins a pass.
        number: How many there are; -1 for any.
    """

    def __init__(self, begin: Callable[[], Iterator], number: int):
        self._begin, self._left, self._batches = begin, number, None

    def __iter__(self) -> "Passes":
        return self

    def __next__(self):
        if self._batches is None:
            if self._left == 0:
                raise StopIteration
            self._left -= 1
            self._batches = self._begin()
        try:
            return next(self._batches)
        except StopIteration:
            self._batches = None
            raise


class TrainingRows(Rows):
    """Rows to train on, sharded as the Trainer's. A new pass is a new epoch, in another order if rows are shuffled.

    Args:
        dataset: This rank's part.
        announced: Reads batches, and tells other ranks what they count.
        after_epoch: Is called when all batches of an epoch were taken. All ranks must take them.

    Attributes:
        epoch: The epoch that is being read, or the next.
        num_read: Batches of it that this rank has read.
        latest: The last batch, as column name to value.
        read_last: Those that a batch was read from last, of all loops of this process.
    """

    read_last: "TrainingRows | None" = None
    _are_repeated: dict[int, bool] = {}  # of the columns of batches that somebody still holds, by their ids

    def __init__(self, dataset: ShardedDataset, announced: Callable, after_epoch: Callable[[], None]):
        super().__init__(dataset)
        self._announced, self._after_epoch = announced, after_epoch
        self.epoch, self.num_read, self.latest = 0, 0, {}
        self._is_under_way = False

    @classmethod
    def knows_as_repeated(cls, tensors: Iterable) -> bool:
        """Whether another rank reads the batch, too, that tensors belong to; all ranks compute as many.

        What was made of a batch is not known again: it counts as the one that was read last, as long as its pass lasts.
        """
        if cls.read_last is None:
            return False
        known = [flag for flag in map(cls._are_repeated.get, map(id, tensors)) if flag is not None]
        is_of_last = cls.read_last._is_under_way and cls.read_last._dataset.is_repeated
        return any(known) if known else is_of_last

    @property
    def is_under_way(self) -> bool:
        """Whether a pass has begun, and not ended."""
        return self._is_under_way

    def reads_on(self, num_replicas: int, batch_size: int) -> bool:
        """Whether so many ranks with batches of that size would have read the rows of an epoch in the same order."""
        return self._dataset.reads_on(num_replicas, batch_size)

    def start_at(self, epoch: int, num_read: int) -> None:
        """Let the next iterator go on in the middle of an epoch."""
        self._dataset.start_at(epoch, num_read)
        self.epoch, self.num_read, self._is_under_way = epoch, num_read, False

    def _pass(self, **options):
        if self._is_under_way:  # the last one was left early
            self.epoch, self.num_read = self.epoch + 1, 0
        self._dataset.set_epoch(self.epoch)
        self.num_read = self._dataset.num_skipped
        self._is_under_way = True
        batches = self._dataset.create_dict_iterator(num_epochs=1, **options)
        for batch in self._announced(batches, self._dataset):
            self.num_read += 1
            self.latest, TrainingRows.read_last = batch, self
            for column in batch.values():
                self._are_repeated[id(column)] = self._dataset.is_repeated
                weakref.finalize(column, self._are_repeated.pop, id(column), None).atexit = False
            yield batch
        self.epoch, self.num_read, self._is_under_way = self.epoch + 1, 0, False
        self._after_epoch()


class HeldRows(Rows):
    """Rows to evaluate on: each row on one rank, in whole batches, as in the Trainer's evaluation.

    All ranks must go through each pass. They take equally many turns, so that they can gather within the loop. A rank
    that has no batch for the last turn repeats one; ``dp.gather_for_metrics`` leaves out what comes of it.

    Args:
        share: This rank's batches.
        whole: The data set, for a rank without any batch.
        collective: The ranks that score together.
        before: Is called before the first batch of each pass.
    """

    def __init__(self, share: EvaluationShard, whole, collective: Collective, before: Callable[[], None]):
        super().__init__(share)
        self._whole, self._collective, self._before = whole, collective, before

    def _pass(self, **options):
        self._before()
        sizes = self._collective.all_gather_object(self.get_dataset_size(), Message("batches to evaluate"))
        turns.begin()
        batch = None
        for batch in self._dataset.create_dict_iterator(num_epochs=1, **options):
            turns.take(batch)
            yield batch
        if self._dataset.get_dataset_size() < max(sizes):
            batch = next(iter(self._whole.create_dict_iterator(num_epochs=1, **options))) if batch is None else batch
            turns.take(batch, is_repeated=True)
            yield batch
        turns.end()
