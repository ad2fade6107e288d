"""Collectives on NumPy arrays through MPI (mpi4py). The engine for CPU: it moves data while backward runs."""

import functools
import logging
import socket

import mindspore
import numpy as np
from mpi4py import MPI

from mindnlp_dp_plugin.collectives.base import Collective, Work
from mindnlp_dp_plugin.collectives.machines import MachineWindows
from mindnlp_dp_plugin.collectives.windows import Windows
from mindnlp_dp_plugin.language import tr

logger = logging.getLogger(__name__)
PIECE_BYTES = 2**20


class MpiCollective(Collective):
    """All ranks of ``mpirun``, on separate communicators, so that user code may use MPI as well.

    Ranks of one machine sum gradients in memory that they share; between machines MPI sums.
    """

    uses_numpy = True

    def __init__(self):
        self._comm = MPI.COMM_WORLD.Dup()
        self._reducing = MPI.COMM_WORLD.Dup()
        self.rank = self._comm.Get_rank()
        self.world_size = self._comm.Get_size()
        self._windows = self._share_memory()
        # On several machines what a first rank gets is all of the sum, in an order that MPI chooses.
        self.can_reduce_scatter = self.adds_by_tree = self._windows is not None and self._windows.writes_to_all

    def memory_for(self, size, dtype):
        return self._windows.take(size, dtype) if self._windows else super().memory_for(size, dtype)

    @property
    def borrowed_bytes(self):
        return self._windows.borrowed_bytes if self._windows else 0

    def all_reduce(self, buffer):
        if self._windows and self._windows.holds(buffer):
            return self._windows.start(buffer)
        return MpiWork(self._reducing, buffer)

    def reduce_scatter(self, buffer, lengths):
        if not (self.can_reduce_scatter and self._windows.holds(buffer)):
            return super().reduce_scatter(buffer, lengths)
        return self._windows.start(buffer, lengths)

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

    def _share_memory(self):
        """None if each machine has one rank, or ranks of one cannot reach each other's memory."""
        machines = self._comm.allgather(socket.gethostname())
        mine = [rank for rank, machine in enumerate(machines) if machine == machines[self.rank]]
        if len(set(machines)) == self.world_size:
            return None
        of_machine = self._comm.Split(mine[0], self.rank)
        firsts = self._comm.Split(int(self.rank != mine[0]), self.rank)
        windows = problem = None
        try:
            if len(mine) == self.world_size:
                windows = Windows(mine, self.rank, of_machine.allgather)
            else:
                between = functools.partial(MpiWork, firsts)
                windows = MachineWindows(mine, self.rank, of_machine.allgather, between)
        except OSError as error:
            problem = str(error)
        if problem := next(filter(None, self._comm.allgather(problem)), None):
            if self.rank == 0:
                logger.warning(
                    tr(
                        "Ranks cannot reach each other's memory ({why}): MPI sums gradients, which takes longer.",
                        why=problem,
                    )
                )
            return None
        return windows


class MpiWork(Work):
    """A sum by MPI, in pieces: of small ones it adds up to three ranks up in the order of a binomial tree."""

    def __init__(self, communicator: MPI.Comm, buffer: np.ndarray):
        size = PIECE_BYTES // buffer.itemsize
        pieces = [buffer[begin : begin + size] for begin in range(0, buffer.size, size)]
        self._requests = [started(communicator, piece) for piece in pieces]

    def progress(self):
        return MPI.Request.Testall(self._requests)

    def wait(self):
        MPI.Request.Waitall(self._requests)


def started(communicator: MPI.Comm, piece: np.ndarray) -> MPI.Request:
    """The request of a sum, in place."""
    if piece.itemsize == 2:
        bits = [piece.view(np.uint16), MPI.UINT16_T]
        return communicator.Iallreduce(MPI.IN_PLACE, bits, op=sum_of(piece.dtype))
    return communicator.Iallreduce(MPI.IN_PLACE, piece)


@functools.cache
def sum_of(dtype: np.dtype) -> MPI.Op:
    """A sum for dtypes that MPI lacks: they are sent as bits, and NumPy adds them."""

    def add(theirs, ours, _):
        ours = np.frombuffer(ours, dtype)
        np.add(np.frombuffer(theirs, dtype), ours, out=ours)

    return MPI.Op.Create(add, commute=True)
