"""Host collectives through MPI (mpi4py). The engine for CPU: it moves data while backward runs."""

import functools

import mindspore
import numpy as np
from mpi4py import MPI

from mindnlp_dp_plugin.collectives.base import Collective, Work


class MpiWork(Work):
    """A non-blocking MPI collective; it only moves while MPI is called."""

    def __init__(self, request):
        self._request = request

    def progress(self):
        return self._request.Test()

    def wait(self):
        self._request.Wait()


class MpiCollective(Collective):
    """All ranks of ``mpirun``, on a communicator of the plugin's own so that user code may use MPI beside it."""

    on_host = True
    bucket_cap_mb = 4

    def __init__(self):
        self._comm = MPI.COMM_WORLD.Dup()
        self.rank = self._comm.Get_rank()
        self.world_size = self._comm.Get_size()

    def all_reduce(self, buffer):
        if buffer.itemsize == 2:
            bits = [buffer.view(np.uint16), MPI.UINT16_T]
            return MpiWork(self._comm.Iallreduce(MPI.IN_PLACE, bits, op=sum_of(buffer.dtype)))
        return MpiWork(self._comm.Iallreduce(MPI.IN_PLACE, buffer))

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


@functools.cache
def sum_of(dtype: np.dtype) -> MPI.Op:
    """The sum of numbers that MPI does not know: they go as bits, and NumPy adds them."""

    def add(theirs, ours, _):
        ours = np.frombuffer(ours, dtype)
        np.add(np.frombuffer(theirs, dtype), ours, out=ours)

    return MPI.Op.Create(add, commute=True)
