"""The order of rows, the same on all ranks: accelerate sees to it for ``RandomSampler`` alone."""

from collections.abc import Iterator

from mindtorch.utils.data import RandomSampler, Sampler, SequentialSampler
from transformers.trainer_pt_utils import LengthGroupedSampler

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.trainers.transformers.draws import Draws

ORDER = Message("the order of the rows")


class SameOrder(Sampler):
    """The order of another sampler on rank 0, drawn anew from seed and epoch. All ranks must read from it.

    A rank's own may draw from what no seed sets; and training that goes on in an epoch has to read on in its order.

    Args:
        sampler: Gives the order.
        seed: What it is drawn from.
        collective: The ranks that share the order.
    """

    def __init__(self, sampler: Sampler, seed: int, collective: Collective):
        self._sampler, self._seed, self._collective, self._epoch = sampler, seed, collective, 0

    def set_epoch(self, epoch: int) -> None:
        """The Trainer is about to read the rows of an epoch, from 0."""
        self._epoch = epoch
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)

    def __len__(self):
        return len(self._sampler)

    def __iter__(self) -> Iterator[int]:
        draws = Draws(self._seed, rank=0)
        with draws.joined():
            draws.part(self._epoch)
            own = list(self._sampler)
        return iter(self._collective.all_gather_object(own if self._collective.rank == 0 else None, ORDER)[0])


def require_undivided(sampler: Sampler | None) -> None:
    """Raise a DataParallelError if a sampler deals rows out, as ``DistributedSampler``: they would be divided twice."""
    if getattr(sampler, "num_replicas", 1) > 1:
        raise DataParallelError(
            "{sampler} divides the rows among ranks, and so does the plugin: each rank would train on a part of its "
            "part. Leave the sampler out, or give one of all rows.",
            sampler=type(sampler).__name__,
        )


def same_on_ranks(sampler: Sampler | None, seed: int, collective: Collective) -> Sampler | None:
    """A sampler whose order is the same on all ranks; groups of similar length are those of the global batch.

    Args:
        sampler: The Trainer's, for its training rows.
        seed: ``TrainingArguments.seed``.
        collective: The ranks that share the order.

    Raises:
        DataParallelError: If it deals rows out itself.
    """
    if sampler is None or type(sampler) in (RandomSampler, SequentialSampler, SameOrder):
        return sampler
    require_undivided(sampler)
    if type(sampler) is LengthGroupedSampler:
        sampler.batch_size *= collective.world_size
    return SameOrder(sampler, seed, collective)
