"""Random numbers of Python, NumPy and torch: in reading a batch and in computing it each rank draws its own.

A rank's stream depends on the seed, the rank and the place in training alone: augmentation and dropout differ between
ranks, and resuming repeats them. Whatever else a script draws, in a sampler, in a callback, behind the training, all
ranks draw alike, as from one process's stream.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import mindtorch
import numpy as np

from mindnlp_dp_plugin.step import rng


class Draws:
    """Where the generators of a rank stand.

    Args:
        seed: The job's.
        rank: This rank.
    """

    def __init__(self, seed: int, rank: int):
        self._seed, self._rank, self._common = seed, rank, None

    def part(self, *place: int) -> None:
        """From now on the rank draws the numbers of a place."""
        if self._common is None:
            self._common = random.getstate(), np.random.get_state(), mindtorch.get_rng_state()
        seed = rng.seed_of(self._seed, self._rank, *place)
        random.seed(seed)
        np.random.seed(seed)
        mindtorch.manual_seed(seed)

    def join(self) -> None:
        """Go on where all ranks have drawn alike."""
        if self._common is not None:
            of_python, of_numpy, of_torch = self._common
            self._common = None
            random.setstate(of_python)
            np.random.set_state(of_numpy)
            mindtorch.set_rng_state(of_torch)

    @contextmanager
    def joined(self) -> Iterator[None]:
        """A context behind which ranks draw alike again."""
        try:
            yield
        finally:
            self.join()
