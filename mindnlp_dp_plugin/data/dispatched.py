"""A pipeline that one rank reads, and deals out batch by batch: accelerate's ``dispatch_batches``.

For sources that every rank would read otherwise: once only, or in an order of their own. The reader is rank 0 of the
job, not one of each node, whose orders would differ. In each turn it reads a batch for each rank, and all ranks get
them: step ``k`` of N ranks has the batches ``kN`` to ``kN + N - 1``, as one process with N times the batch has.
"""

from collections.abc import Callable, Sequence
from itertools import islice

import mindspore
from mindspore import dataset as ds
from mindspore.dataset.engine import datasets

from mindnlp_dp_plugin.data.evaluation import InTurn
from mindnlp_dp_plugin.data.sharded import ShardedByBatch, nodes

Tell = Callable[[list | None], list]
"""Returns on all ranks what it was given on the reader."""


class Dispatched(ShardedByBatch):
    """A rank's batches of a pipeline that rank 0 reads. All ranks must take the same number of them, in turn.

    What ends an epoch with too few batches for all ranks is as in ``ShardedByBatch``. An epoch that is begun in its
    middle is read from its start, by rank 0. The pipeline's shuffles draw each epoch anew; a source that
    has ``set_epoch`` is told it.

    Args:
        pipeline: Batched. Only rank 0 reads it, and nothing before training.
        num: Batches in a turn.
        mine: The numbers of this rank's in it.
        seed: What shuffles of the pipeline draw from, with the epoch.
        reads: Whether this rank is the reader.
        tell: Passes on what the reader has read. All ranks must call it.
        counts: Whether a length is wanted that is only known once all rows are read; then they are read once for it, as
            MindSpore does.
    """

    def __init__(
        self, pipeline: ds.Dataset, num: int, mine: Sequence[int], seed: int, reads: bool, tell: Tell, counts: bool
    ):
        super().__init__(pipeline, num, mine[0], seed)
        self._mine, self._reads, self._tell = mine, reads, tell
        (size,) = tell([_size(pipeline, counts)] if reads else None)
        self._num_turns = None
        if size is not None:
            self._num_turns = size // num if self._drop_last else -(-size // num)

    @property
    def num_examples(self):
        """Rows that all ranks together read in an epoch, counting each batch as full; None if unknown."""
        return None if self._num_turns is None else self._num_turns * self._num_replicas * self.get_batch_size()

    def get_dataset_size(self):
        """Batches of this rank in an epoch; None if that is not known."""
        return None if self._num_turns is None else self._num_turns * len(self._mine)

    def _read(self, options):
        turns_before, rest = divmod(self.num_skipped, len(self._mine))
        return islice(self._dealt(options, turns_before), rest, None)

    def _dealt(self, options, turns_before):
        for group in self._groups(options, turns_before):
            if len(group) < self._num_replicas and self._drop_last:
                return
            for number in self._mine:
                yield as_asked(self._taken_from(group, number), options)

    def _groups(self, options, turns_before):
        """The batches of each turn, the same on all ranks."""
        if self._reads:
            batches = self._all_batches({**options, "output_numpy": True})
            batches = islice(batches, turns_before * self._num_replicas, None)
        while group := self._tell(list(islice(batches, self._num_replicas)) if self._reads else None):
            yield group

    def _all_batches(self, options):
        for source in _sources(self._pipeline):
            if hasattr(source, "set_epoch"):
                source.set_epoch(self._epoch)
        return self._start(options, self._seed_of_epoch(self._epoch))


class DispatchedForEvaluation(InTurn, Dispatched):
    """A rank's batches of an evaluation pipeline that rank 0 reads: each batch on one rank. Its length is not known.

    All ranks must read it to its end: each asks for as many turns.
    """

    def __init__(self, pipeline: ds.Dataset, num_replicas: int, rank: int, seed: int, tell: Tell):
        super().__init__(pipeline, num_replicas, [rank], seed, rank == 0, tell, counts=False)
        self._num_turns = None

    def _dealt(self, options, turns_before):
        for group in self._groups(options, turns_before):
            if self._mine[0] < len(group):
                yield as_asked(group[self._mine[0]], options)
            if len(group) < self._num_replicas:  # the last: no rank asks for another while others score
                return


def as_asked(batch: dict, options: dict) -> dict:
    """A batch of arrays as tensors, unless arrays are asked for."""
    if options.get("output_numpy"):
        return batch
    return {name: mindspore.Tensor(values) for name, values in batch.items()}


def is_read_once(pipeline: ds.Dataset) -> bool:
    """Whether a source of the pipeline iterates over itself, so that to count its rows is to lose them."""
    return any(_iterates_over_itself(source) for source in _sources(pipeline) if not hasattr(source, "__getitem__"))


def _iterates_over_itself(source):
    if callable(source):
        return source() is source()
    return hasattr(source, "__iter__") and iter(source) is source


def _size(pipeline, counts):
    """Batches in a pass; None if they are not known without a pass, and that is not wanted or would lose them."""
    if _is_known_by_reading(pipeline) and (not counts or is_read_once(pipeline)):
        return None
    size = pipeline.get_dataset_size()
    return None if size is None or size < 0 else size


def _is_known_by_reading(pipeline):
    return any(
        isinstance(node, datasets.FilterDataset)
        or getattr(node, "batch_size_func", None) is not None
        or (isinstance(node, ds.GeneratorDataset) and node.source_len < 0)
        for node in nodes(pipeline)
    )


def _sources(pipeline):
    return [node.source for node in nodes(pipeline) if isinstance(node, ds.GeneratorDataset)]
