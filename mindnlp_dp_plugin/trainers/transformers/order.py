"""The order of rows, the same on all ranks: accelerate sees to it for ``RandomSampler`` alone."""

from collections.abc import Iterator

import mindtorch
from mindtorch.utils.data import RandomSampler, Sampler
from transformers.trainer_pt_utils import LengthGroupedSampler


class SameOrder(Sampler):
    """The order of another sampler, drawn anew from seed and epoch.

    Drawn from torch's own generator, it would differ from the second epoch on, as dropout draws other numbers on each
    rank.

    Args:
        sampler: Gives the order.
        seed: The same on all ranks.
    """

    def __init__(self, sampler: Sampler, seed: int):
        self._sampler, self._seed, self._epoch = sampler, seed, 0

    def set_epoch(self, epoch: int) -> None:
        """The Trainer is about to read the rows of an epoch, from 0."""
        self._epoch = epoch
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)

    def __len__(self):
        return len(self._sampler)

    def __iter__(self) -> Iterator[int]:
        before = mindtorch.get_rng_state()
        mindtorch.manual_seed(self._seed + self._epoch)
        order = list(self._sampler)
        mindtorch.set_rng_state(before)
        return iter(order)


def same_on_ranks(sampler: Sampler | None, seed: int, world_size: int) -> Sampler | None:
    """A sampler whose order is the same on all ranks; groups of similar length are those of the global batch.

    Args:
        sampler: The Trainer's, for its training rows.
        seed: ``TrainingArguments.seed``.
        world_size: How many ranks share the order.
    """
    if sampler is None or type(sampler) is RandomSampler:
        return sampler
    if type(sampler) is LengthGroupedSampler:
        sampler.batch_size *= world_size
    return SameOrder(sampler, seed)
