"""MindSpore's collectives as its oldest operators offer them: what MindSpore 2.3 and 2.4 have.

They block, so nothing overlaps with backward. On newer versions ``cluster.py`` is used instead; on CPU this engine is
tested there too.
"""

import pickle

import mindspore
import numpy as np
from mindspore import ops
from mindspore.communication import get_group_size, get_rank, init

from mindnlp_dp_plugin.collectives.base import Collective, Work

# The operator refuses these on CPU.
TRAVELS_AS = {mindspore.bool_: mindspore.int32, mindspore.uint8: mindspore.int32, mindspore.bfloat16: mindspore.float32}


class PrimitiveCollective(Collective):
    """The cluster that ``msrun`` (or a rank table) sets up. Joining it must come before the first tensor on Ascend."""

    on_host = False
    bucket_cap_mb = 25

    def __init__(self):
        init()
        self.rank = get_rank()
        self.world_size = get_group_size()
        self._all_reduce = ops.AllReduce()
        self._all_gather = ops.AllGather()

    def all_reduce(self, buffer):
        buffer.assign_value(self._all_reduce(buffer))
        return Work()

    def broadcast(self, tensor, src=0):
        message = tensor.astype(TRAVELS_AS.get(tensor.dtype, tensor.dtype))
        (received,) = ops.Broadcast(src)((message,))
        tensor.assign_value(received.astype(tensor.dtype))

    def all_gather_object(self, value):
        message = np.frombuffer(pickle.dumps(value), np.uint8).astype(np.int32)
        lengths = self._gather(np.array([len(message)], np.int32))
        padded = np.zeros(lengths.max(), np.int32)
        padded[: len(message)] = message
        rows = self._gather(padded).reshape(self.world_size, -1).astype(np.uint8)
        return [pickle.loads(row[:length].tobytes()) for row, length in zip(rows, lengths)]

    def barrier(self):
        self._gather(np.array([self.rank], np.int32))

    def _gather(self, values):
        return self._all_gather(mindspore.Tensor(values)).asnumpy()
