"""Collectives on NumPy arrays through MPI (mpi4py). The engine for CPU: it moves data while backward runs."""

import functools
from collections import deque

import mindspore
import numpy as np
from mpi4py import MPI

from mindnlp_dp_plugin.collectives.base import Collective, Work

PIECE_BYTES = 2**20
MAX_UNDER_WAY = 8


class MpiCollective(Collective):
    """All ranks of ``mpirun``, on separate communicators, so that user code may use MPI as well."""

    uses_numpy = True
    bucket_cap_mb = 4

    def __init__(self):
        self._comm = MPI.COMM_WORLD.Dup()
        self._all_reduces = AllReduces(MPI.COMM_WORLD.Dup())
        self.rank = self._comm.Get_rank()
        self.world_size = self._comm.Get_size()

    def all_reduce(self, buffer):
        return self._all_reduces.start(buffer)

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

    def all_gather_object(self, value):
        return self._comm.allgather(value)

    def barrier(self):
        self._comm.Barrier()


class AllReduces:
    """The all-reduces in progress on a communicator, cut into pieces that start and end in order.

    An MPI library may allocate as much memory as the message of a non-blocking all-reduce, so it gets only a few small
    pieces at a time.
    """

    def __init__(self, communicator: MPI.Comm):
        self._communicator = communicator
        self._waiting = deque()
        self._requests = deque()
        self.num_ended = 0
        self._num_asked = 0

    def start(self, buffer: np.ndarray) -> "MpiWork":
        """Start to sum a one-dimensional array, in place."""
        size = PIECE_BYTES // buffer.itemsize
        pieces = [buffer[begin : begin + size] for begin in range(0, buffer.size, size)]
        self._waiting.extend(pieces)
        self._num_asked += len(pieces)
        self._fill_up()
        return MpiWork(self, self._num_asked)

    def progress(self) -> None:
        """Move data; MPI moves it only while it is called."""
        while self._requests and self._requests[0].Test():
            self._end_first()

    def wait_for_first(self) -> None:
        """Wait for the oldest piece in progress."""
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
    """An all-reduce, complete when its last piece has ended."""

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
    """A sum for dtypes that MPI lacks: they are sent as bits, and NumPy adds them."""

    def add(theirs, ours, _):
        ours = np.frombuffer(ours, dtype)
        np.add(np.frombuffer(theirs, dtype), ours, out=ours)

    return MPI.Op.Create(add, commute=True)
