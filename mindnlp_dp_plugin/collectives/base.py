"""The contract of a collective: what every engine offers to the rest of the plugin."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any


class Work:
    """A collective in progress. This base class is one that was complete when it was returned.

    Attributes:
        part: Of a reduce-scatter, this rank's part of the sum, in memory of its own, once ``wait`` has returned; None
            if it has no elements.
    """

    part: Any = None

    def progress(self) -> bool:
        """Give the engine a chance to move data. Never waits.

        Returns:
            Whether the collective is known to be complete.
        """
        return True

    def wait(self) -> None:
        """Wait until the collective is complete on this rank and its buffer may be read."""


class PartOfAllReduce(Work):
    """The part of a sum that all ranks get."""

    def __init__(self, work: Work, buffer: Any, begin: int, end: int):
        self._work = work
        self._buffer, self._begin, self._end = buffer, begin, end

    def progress(self):
        """That of the all-reduce."""
        return self._work.progress()

    def wait(self):
        """Wait for the all-reduce, and keep the part."""
        self._work.wait()
        if self._begin < self._end:
            self.part = self._buffer[self._begin : self._end].copy()


class Collective(ABC):
    """The ranks of a job, and the operations they do together.

    All ranks must call every method, in the same order; otherwise they deadlock.

    Attributes:
        rank: This process's rank, from 0 to ``world_size - 1``.
        world_size: Number of ranks.
        local_rank: This process's rank among those on the same node.
        local_world_size: Number of ranks on this node; None if the launcher does not say.
        uses_numpy: Whether ``all_reduce`` and ``all_gather`` take NumPy arrays (True) or MindSpore tensors (False).
        forms_cluster: Whether its ranks form MindSpore's cluster, which then knows rank and world size, too.
        bucket_cap_mb: The bucket size that suits the engine, in MB.
        can_reduce_scatter: Whether ``reduce_scatter`` sends each rank its part alone.
        adds_by_tree: Whether arrays of ``memory_for`` are summed in the order of a binomial tree of ranks, however many
            there are.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int | None
    uses_numpy: bool
    forms_cluster: bool = True
    bucket_cap_mb: float
    can_reduce_scatter: bool = False
    adds_by_tree: bool = False

    def memory_for(self, size: int, dtype: Any) -> Any:
        """A NumPy array that is summed where it lies, if the engine can do that; what is in it is undefined.

        Args:
            size: Its elements.
            dtype: Their type.
        """
        import numpy as np  # not above: a rank is pinned before NumPy is loaded

        return np.empty(size, dtype)

    @property
    def borrowed_bytes(self) -> int:
        """Memory of other ranks that the kernel counts as this one's, too."""
        return 0

    @abstractmethod
    def all_reduce(self, buffer: Any) -> Work:
        """Start to sum ``buffer`` over all ranks, in place. All ranks must call it, in the same order.

        Args:
            buffer: One-dimensional and contiguous, of the same length and dtype on all ranks: a NumPy array if
                ``uses_numpy``, otherwise a tensor. float32, float16 and bfloat16 work on every engine. Do not touch
                it until ``Work.wait`` returns.

        Returns:
            The work to ``wait`` for.
        """

    def reduce_scatter(self, buffer: Any, lengths: Sequence[int]) -> Work:
        """Start to sum ``buffer`` over all ranks; each gets its part. All ranks must call it, in the same order.

        An engine that cannot do so leaves this as it is: the sum then comes from ``all_reduce``, with the same bits.

        Args:
            buffer: As for ``all_reduce``: the part of each rank after the other. Do not touch it until ``Work.wait``
                returns; what is in it then is undefined.
            lengths: Elements in the part of each rank, the same on all ranks.

        Returns:
            The work to ``wait`` for, and the ``part``.
        """
        end = sum(lengths[: self.rank + 1])
        return PartOfAllReduce(self.all_reduce(buffer), buffer, end - lengths[self.rank], end)

    @abstractmethod
    def all_gather(self, part: Any) -> Any:
        """The ``part`` of every rank, joined in the order of ranks. All ranks must call it, in the same order.

        Args:
            part: One-dimensional and contiguous, of the same length and dtype on all ranks: a NumPy array if
                ``uses_numpy``, otherwise a tensor. float32, float16 and bfloat16 work on every engine.

        Returns:
            An array or a tensor of its own, ``world_size`` times as long.
        """

    @abstractmethod
    def broadcast(self, tensor: Any, src: int = 0) -> None:
        """Overwrite ``tensor`` with its values on rank ``src``. All ranks must call it, in the same order.

        Args:
            tensor: A tensor or parameter of any dtype, of the same shape and dtype on all ranks.
            src: The rank whose values all ranks get.
        """

    @abstractmethod
    def all_gather_object(self, value: Any, purpose: str | None = None) -> list:
        """The ``value`` of every rank, in the order of ranks. All ranks must call it, in the same order.

        Args:
            value: Any object that can be pickled; keep it small, as it passes through host memory.
            purpose: What it is for, in English, the same on all ranks. ``Watched`` sends it along and ends the job
                where two differ; an engine need not look at it.
        """

    def leave(self) -> None:  # noqa: B027  nothing to let go of is usual
        """Let go of the other ranks, so that each can join anew. All ranks must call it, last of all."""

    @abstractmethod
    def barrier(self) -> None:
        """Wait until all ranks have called it. All ranks must call it, in the same order."""
