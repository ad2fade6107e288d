"""Host collectives through MPI (mpi4py). The engine for CPU: it moves data while backward runs."""

import functools
from collections import deque

import mindspore
import numpy as np
from mpi4py import MPI

from mindnlp_dp_plugin.collectives.base import Collective, Work

PIECE_BYTES = 2**20
MAX_UNDER_WAY = 8


class MpiCollective(Collective):
    """All ranks of ``mpirun``, on communicators of the plugin's own so that user code may use MPI beside it."""

    uses_numpy = True
    bucket_cap_mb = 4

    def __init__(self):
        self._comm = MPI.COMM_WORLD.Dup()
        self._all_reduces = AllReduces(MPI.COMM_WORLD.Dup())
        self.rank = self._comm.Get_rank()
        self.world_size = self._comm.Get_size()

    def all_reduce(self, buffer):
        return self._all_reduces.start(buffer)

    def broadcast(self, tensor, src=0):
        values = tensor.asnumpy()
        message = np.ascontiguousarray(values).view(np.uint8) if values.ndim else values.reshape(1).view(np.uint8)
        message = message.copy() if self.rank != src else message
        self._comm.Bcast(message, root=src)
        if self.rank != src:
            received = message.view(values.dtype).reshape(values.shape)
            tensor.assign_value(mindspore.Tensor(received, dtype=tensor.dtype))

    def all_gather_object(self, value):
        return self._comm.allgather(value)

    def barrier(self):
        self._comm.Barrier()


class AllReduces:
    """All-reduces under way on a communicator, in pieces that start and end in the order in which they came.

    An MPI library may take as much memory again as the message of a non-blocking all-reduce, so no more than a few
    small pieces are handed to it at a time.
    """

    def __init__(self, communicator: MPI.Comm):
        self._communicator = communicator
        self._waiting = deque()
        self._requests = deque()
        self.num_ended = 0
        self._num_asked = 0

    def start(self, buffer: np.ndarray) -> "MpiWork":
        """Ask for the sum of a one-dimensional array, in place."""
        size = PIECE_BYTES // buffer.itemsize
        pieces = [buffer[begin : begin + size] for begin in range(0, buffer.size, size)]
        self._waiting.extend(pieces)
        self._num_asked += len(pieces)
        self._fill_up()
        return MpiWork(self, self._num_asked)

    def progress(self) -> None:
        """Move data; it only moves while MPI is called."""
        while self._requests and self._requests[0].Test():
            self._end_first()

    def wait_for_first(self) -> None:
        """Wait for the piece that has been under way for longest."""
        self._requests[0].Wait()
        self._end_first()

    def _end_first(self):
        self._requests.popleft()
        self.num_ended += 1
        self._fill_up()

    def _fill_up(self):
        while self._waiting and len(self._requests) < MAX_UNDER_WAY:
            self._requests.append(self._all_reduce(self._waiting.popleft()))

    def _all_reduce(self, piece):
        if piece.itemsize == 2:
            bits = [piece.view(np.uint16), MPI.UINT16_T]
            return self._communicator.Iallreduce(MPI.IN_PLACE, bits, op=sum_of(piece.dtype))
        return self._communicator.Iallreduce(MPI.IN_PLACE, piece)


class MpiWork(Work):
    """An all-reduce, done when so many pieces have ended."""

    def __init__(self, all_reduces: AllReduces, last_piece: int):
        self._all_reduces = all_reduces
        self._last_piece = last_piece

    def progress(self):
        self._all_reduces.progress()
        return self._all_reduces.num_ended >= self._last_piece

    def wait(self):
        while self._all_reduces.num_ended < self._last_piece:
            self._all_reduces.wait_for_first()


@functools.cache
def sum_of(dtype: np.dtype) -> MPI.Op:
    """The sum of numbers that MPI does not know: they go as bits, and NumPy adds them."""

    def add(theirs, ours, _):
        ours = np.frombuffer(ours, dtype)
        np.add(np.frombuffer(theirs, dtype), ours, out=ours)

    return MPI.Op.Create(add, commute=True)
