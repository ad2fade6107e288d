"""What the rest of the plugin may ask of a group of ranks."""

from abc import ABC, abstractmethod
from typing import Any


class Work:
    """A collective under way. This base is the work that was done before it was returned."""

    def progress(self) -> bool:
        """Give the engine a chance to move data. Never waits.

        Returns:
            Whether the collective is known to be done.
        """
        return True

    def wait(self) -> None:
        """Return when the collective is done on this rank and its buffer may be read."""


class Collective(ABC):
    """The ranks of a job, and what they do together.

    Every method but the properties is a collective: it is to be called on all ranks, in the same order, or all stall.

    Attributes:
        rank: This process's number, from 0 to ``world_size - 1``.
        world_size: How many processes take part.
        local_rank: This process's number among those on the same node.
        local_world_size: How many of them are on this node; None where the launcher does not say.
        uses_numpy: Whether ``all_reduce`` takes numpy arrays (True) or MindSpore tensors (False).
        bucket_cap_mb: The bucket size that suits the engine, in MB.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int | None
    uses_numpy: bool
    bucket_cap_mb: float

    @abstractmethod
    def all_reduce(self, buffer: Any) -> Work:
        """Start to sum ``buffer`` over all ranks, in place. To be called on all ranks, in the same order.

        Args:
            buffer: One-dimensional and contiguous, of the same length and dtype on all ranks: a numpy array where
                ``uses_numpy``, else a tensor. float32, float16 and bfloat16 work on every engine. Must not be touched
                before the work is done.

        Returns:
            The work: ``wait`` for it before reading ``buffer``.
        """

    @abstractmethod
    def broadcast(self, tensor: Any, src: int = 0) -> None:
        """Overwrite ``tensor`` with the values it has on rank ``src``. To be called on all ranks, in the same order.

        Args:
            tensor: A tensor or parameter of any dtype, of the same shape and dtype on all ranks.
            src: The rank whose values all receive.
        """

    @abstractmethod
    def all_gather_object(self, value: Any) -> list:
        """Everybody's ``value``, in the order of ranks. To be called on all ranks, in the same order.

        Args:
            value: Anything that can be pickled; small, as it passes through host memory.
        """

    @abstractmethod
    def barrier(self) -> None:
        """Return when all ranks have come here. To be called on all ranks, in the same order."""
