"""Collectives on NumPy arrays through MPI (mpi4py). The engine for CPU: it moves data while backward runs."""

import functools
import itertools
from collections import deque
from collections.abc import Sequence

import mindspore
import numpy as np
from mpi4py import MPI

from mindnlp_dp_plugin.collectives.base import Collective, PartWork, Work

PIECE_BYTES = 2**20
MAX_UNDER_WAY = 8


class MpiCollective(Collective):
    """All ranks of ``mpirun``, on separate communicators, so that user code may use MPI as well."""

    uses_numpy = True
    can_reduce_scatter = adds_by_tree = True

    def __init__(self):
        self._comm = MPI.COMM_WORLD.Dup()
        self._reductions = Reductions(MPI.COMM_WORLD.Dup())
        self.rank = self._comm.Get_rank()
        self.world_size = self._comm.Get_size()

    def all_reduce(self, buffer):
        return self._reductions.all_reduce(buffer)

    def reduce_scatter(self, buffer, lengths):
        return self._reductions.reduce_scatter(buffer, lengths)

    def all_gather(self, part):
        whole = np.empty(self.world_size * part.size, part.dtype)
        self._comm.Allgather(part.view(np.uint8), whole.view(np.uint8))
        return whole

    def broadcast(self, tensor, src=0):
        values = tensor.asnumpy()
        message = np.ascontiguousarray(values).view(np.uint8) if values.ndim else values.reshape(1).view(np.uint8)
        message = message.copy() if self.rank != src else message
        self._comm.Bcast(message, root=src)
        if self.rank != src:
            received = message.view(values.dtype).reshape(values.shape)
            tensor.assign_value(mindspore.Tensor(received, dtype=tensor.dtype))

    def all_gather_object(self, value, purpose=None):
        return self._comm.allgather(value)

    def leave(self):
        MPI.Finalize()

    def barrier(self):
        self._comm.Barrier()


class Reductions:
    """The sums in progress on a communicator, cut into pieces that start and end in order.

    An MPI library may allocate as much memory as the message of a non-blocking all-reduce, so it gets only a few small
    pieces at a time.
    """

    def __init__(self, communicator: MPI.Comm):
        self._communicator = communicator
        self._waiting = deque()  # functions that start a piece, and return its request
        self._requests = deque()
        self.num_ended = 0
        self._num_asked = 0

    def all_reduce(self, buffer: np.ndarray) -> "MpiWork":
        """Start to sum a one-dimensional array, in place."""
        pieces = cut_to_pieces(buffer)
        return MpiWork(self, self._ask([functools.partial(self._all_reduce, piece) for piece in pieces]))

    def reduce_scatter(self, buffer: np.ndarray, lengths: Sequence[int]) -> "MpiPartWork":
        """Start to sum a one-dimensional array, of which each rank gets a part."""
        parts = [cut_to_pieces(part) for part in np.split(buffer, np.cumsum(lengths)[:-1])]
        part = np.empty(lengths[self._communicator.rank], buffer.dtype)
        in_turn = itertools.zip_longest(*parts, cut_to_pieces(part), fillvalue=buffer[:0])
        starts = [functools.partial(PieceForEach, self._communicator, pieces, target) for *pieces, target in in_turn]
        return MpiPartWork(self, self._ask(starts), part)

    def progress(self) -> None:
        """Move data; MPI moves it only while it is called."""
        while self._requests and self._requests[0].Test():
            self._end_first()

    def wait_for_first(self) -> None:
        """Wait for the oldest piece in progress."""
        self._requests[0].Wait()
        self._end_first()

    def _ask(self, starts):
        """Start these pieces in their turn; returns the number of the last."""
        self._waiting.extend(starts)
        self._num_asked += len(starts)
        self._fill_up()
        return self._num_asked

    def _end_first(self):
        self._requests.popleft()
        self.num_ended += 1
        self._fill_up()

    def _fill_up(self):
        while self._waiting and len(self._requests) < MAX_UNDER_WAY:
            self._requests.append(self._waiting.popleft()())

    def _all_reduce(self, piece):
        if piece.itemsize == 2:
            bits = [piece.view(np.uint16), MPI.UINT16_T]
            return self._communicator.Iallreduce(MPI.IN_PLACE, bits, op=sum_of(piece.dtype))
        return self._communicator.Iallreduce(MPI.IN_PLACE, piece)


def cut_to_pieces(buffer: np.ndarray) -> list[np.ndarray]:
    """Views that follow each other."""
    size = PIECE_BYTES // buffer.itemsize
    return [buffer[begin : begin + size] for begin in range(0, buffer.size, size)]


class PieceForEach:
    """Sends each rank the piece that it sums, and sums the own one.

    It is added up in the order of a binomial tree of ranks, in which Open MPI all-reduces these pieces on up to three
    ranks: so the bits are the same. MPI's own ``Reduce_scatter`` sums the part of each rank in another order.

    Args:
        communicator: The ranks.
        pieces: What each rank sums, in the order of ranks.
        target: Where the own sum goes.
    """

    def __init__(self, communicator: MPI.Comm, pieces: list[np.ndarray], target: np.ndarray):
        rank = communicator.rank
        self._target = target
        self._values = [target if peer == rank else np.empty_like(target) for peer in range(len(pieces))]
        target[...] = pieces[rank]
        peers = [peer for peer in range(len(pieces)) if peer != rank]
        self._requests = [
            communicator.Irecv(self._values[peer].view(np.uint8), peer) for peer in peers if target.size
        ] + [communicator.Isend(pieces[peer].view(np.uint8), peer) for peer in peers if pieces[peer].size]

    def Test(self) -> bool:
        """Whether the sum is complete, as that of a request."""
        is_complete = MPI.Request.Testall(self._requests)
        if is_complete:
            self._add_up()
        return is_complete

    def Wait(self) -> None:
        """Wait until the sum is complete, as that of a request."""
        MPI.Request.Waitall(self._requests)
        self._add_up()

    def _add_up(self):
        values, distance = self._values, 1
        while distance < len(values):
            for rank in range(0, len(values) - distance, 2 * distance):
                np.add(values[rank], values[rank + distance], out=values[rank])
            distance *= 2
        self._target[...] = values[0]


class MpiWork(Work):
    """A sum, complete when its last piece has ended."""

    def __init__(self, reductions: Reductions, last_piece: int):
        self._reductions = reductions
        self._last_piece = last_piece

    def progress(self):
        self._reductions.progress()
        return self._reductions.num_ended >= self._last_piece

    def wait(self):
        while self._reductions.num_ended < self._last_piece:
            self._reductions.wait_for_first()


class MpiPartWork(MpiWork, PartWork):
    """A sum of which this rank gets a part."""

    def __init__(self, reductions: Reductions, last_piece: int, part: np.ndarray):
        super().__init__(reductions, last_piece)
        self.part = part if part.size else None


@functools.cache
def sum_of(dtype: np.dtype) -> MPI.Op:
    """A sum for dtypes that MPI lacks: they are sent as bits, and NumPy adds them."""

    def add(theirs, ours, _):
        ours = np.frombuffer(ours, dtype)
        np.add(np.frombuffer(theirs, dtype), ours, out=ours)

    return MPI.Op.Create(add, commute=True)
