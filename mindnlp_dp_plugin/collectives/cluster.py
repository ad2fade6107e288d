"""MindSpore's own collectives: HCCL on Ascend, MCCL on CPU, both through ``mindspore.mint.distributed``."""

import pickle

import mindspore
import numpy as np
from mindspore.communication import get_group_size, get_rank, init, release
from mindspore.mint.distributed import distributed  # the package's are for scripts, which are answered from here

from mindnlp_dp_plugin.collectives.base import Collective, Work
from mindnlp_dp_plugin.collectives.wakeups import without_preemption


class MindSporeWork(Work):
    """A collective that MindSpore runs on a stream of its own.

    Args:
        handle: MindSpore's.
        buffer: On CPU, what it sums: there ``wait`` comes back when the sum is there, not when it is queued, so that
            the watchdog sees this rank wait.
        part: Of a reduce-scatter, where this rank's part comes.
    """

    def __init__(self, handle, buffer=None, part=None):
        self._handle, self._buffer, self.part = handle, buffer, part

    def progress(self):
        return False  # it moves by itself, and cannot be asked

    def wait(self):
        self._handle.wait()
        if self._buffer is not None:
            self._buffer.asnumpy()


class MindSporeCollective(Collective):
    """The cluster that ``msrun`` or a rank table sets up. On Ascend, join before the first tensor exists."""

    uses_numpy = False

    def __init__(self):
        with without_preemption():
            init()
        self.rank = get_rank()
        self.world_size = get_group_size()
        self._all_gather = mindspore.ops.AllGather()
        # On Ascend alone, and not in the first versions of mint.
        self._on_device = mindspore.get_context("device_target") != "CPU"
        self.can_reduce_scatter = self._on_device and hasattr(distributed, "reduce_scatter_tensor_uneven")

    def all_reduce(self, buffer):
        return MindSporeWork(distributed.all_reduce(buffer, async_op=True), None if self._on_device else buffer)

    def reduce_scatter(self, buffer, lengths):
        if not self.can_reduce_scatter:
            return super().reduce_scatter(buffer, lengths)
        part = mindspore.mint.empty(lengths[self.rank], dtype=buffer.dtype)
        handle = distributed.reduce_scatter_tensor_uneven(part, buffer, list(lengths), async_op=True)
        return MindSporeWork(handle, part=part)

    def all_gather(self, part):
        # The operator: mint.distributed's is not there on CPU.
        if part.dtype == mindspore.bfloat16 and not self._on_device:
            return self._all_gather(part.astype(mindspore.float32)).astype(part.dtype)
        return self._all_gather(part)

    def broadcast(self, tensor, src=0):
        # MCCL has no broadcast of bool, so bool travels as uint8.
        message = mindspore.Tensor(tensor.astype(mindspore.uint8)) if tensor.dtype == mindspore.bool_ else tensor
        distributed.broadcast(message, src)
        if message is not tensor:
            tensor.assign_value(message.astype(tensor.dtype))

    def all_gather_object(self, value, purpose=None):
        # As bytes: MindSpore 2.7.0 unpickles only numbers, strings and their containers.
        gathered = [None] * self.world_size
        distributed.all_gather_object(gathered, pickle.dumps(value))
        return [pickle.loads(theirs) for theirs in gathered]

    def leave(self):
        release()

    def barrier(self):
        # distributed.barrier returns at once on MCCL (2.7.0 and 2.10.0); no rank gets the sum before all have called.
        token = mindspore.Tensor(np.ones(1, np.float32))
        self.all_reduce(token).wait()
        token.asnumpy()  # on a device the wait queues only
