"""One bucket: the gradients of a few parameters, averaged over the ranks by a single all-reduce.

A bucket is told of each gradient as backward makes it (``put``), started once (``start``), and read when the
all-reduce is done (``gradients``). The mean is made by scaling with this rank's share, as a rule 1/world_size, on the
way in: it costs no pass of its own, and half-precision sums cannot overflow. Half-precision gradients travel and are
summed as float32.
"""

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective


class HostBucket:
    """A flat numpy buffer that lives as long as the reducer; on CPU, tensors share its memory in both directions."""

    def __init__(self, parameters, collective: Collective):
        self._collective = collective
        self._parameters = parameters
        self._dtype = parameters[0].dtype
        self._travels_as = np.float64 if self._dtype == mindspore.float64 else np.float32
        self._buffer = np.empty(sum(parameter.size for parameter in parameters), self._travels_as)
        ends = np.cumsum([parameter.size for parameter in parameters])
        self._slots = [
            self._buffer[end - parameter.size : end].reshape(parameter.shape)
            for end, parameter in zip(ends, parameters)
        ]

    def put(self, index: int, gradient, accumulated, share: float) -> None:
        """Take in the gradient of parameter ``index`` and, if not None, what accumulated before it."""
        values = gradient.asnumpy()
        if accumulated is not None:
            values = values + accumulated.asnumpy()  # in the gradient's own dtype, as one process accumulates
        np.multiply(values, self._travels_as(share), out=self._slots[index], dtype=self._travels_as)

    def start(self):
        """Start the all-reduce. To be called on all ranks, in the order of buckets. Returns the work."""
        self._work = self._collective.all_reduce(self._buffer)
        return self._work

    def gradients(self) -> list:
        """Wait, then the averaged gradients as tensors in the parameters' shapes and dtype.

        They share the bucket's memory and are good until the next ``put``.
        """
        self._work.wait()
        averaged = (mindspore.Tensor.from_numpy(slot) for slot in self._slots)
        return [tensor if tensor.dtype == self._dtype else tensor.astype(self._dtype) for tensor in averaged]


class DeviceBucket:
    """Gradients stay on the device: packed by a concatenation, started, and sliced apart again."""

    def __init__(self, parameters, collective: Collective):
        self._collective = collective
        self._parameters = parameters
        self._dtype = parameters[0].dtype
        self._travels_as = mindspore.float64 if self._dtype == mindspore.float64 else mindspore.float32
        self._parts = [None] * len(parameters)

    def put(self, index: int, gradient, accumulated, share: float) -> None:
        """Take in the gradient of parameter ``index`` and, if not None, what accumulated before it."""
        total = gradient if accumulated is None else gradient + accumulated
        self._parts[index] = total.reshape(-1).astype(self._travels_as)
        self._share = share

    def start(self):
        """Start the all-reduce. To be called on all ranks, in the order of buckets. Returns the work."""
        self._buffer = mindspore.ops.cat(self._parts) * self._share
        self._parts = [None] * len(self._parameters)
        self._work = self._collective.all_reduce(self._buffer)
        return self._work

    def gradients(self) -> list:
        """Wait, then the averaged gradients as tensors in the parameters' shapes and dtype."""
        self._work.wait()
        averaged, begin = [], 0
        for parameter in self._parameters:
            part = self._buffer[begin : begin + parameter.size].reshape(parameter.shape)
            # Not the slice itself: MindSpore 2.7 ignores what is assigned to a view, and clipping assigns.
            averaged.append(part.copy() if part.dtype == self._dtype else part.astype(self._dtype))
            begin += parameter.size
        return averaged
