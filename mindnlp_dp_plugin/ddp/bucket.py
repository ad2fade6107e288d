"""One bucket: the gradients of a few parameters, averaged over the ranks by a single all-reduce.

A bucket is told of each gradient as backward makes it (``put``), started once (``start``), and read when the
all-reduce is done (``gradients``); it lets go of its memory before the next forward (``release``). The mean is made by
scaling with this rank's share, as a rule 1/world_size, on the way in: it costs no pass of its own, and half-precision
sums cannot overflow. Half-precision gradients travel and are summed as float32, unless a ``comm_dtype`` of two bytes is
asked for: then what would be float32 is rounded to it before it travels, as by the compression hooks of torch's
DistributedDataParallel.
"""

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective

RUN = 2**13  # numbers that float32 sums well, and that BLAS does not deal out to threads


class HostBucket:
    """A flat numpy buffer, taken when the first gradient comes; on CPU, tensors share its memory in both directions."""

    def __init__(self, parameters, collective: Collective, comm_dtype: str = "float32"):
        self._collective = collective
        self._parameters = parameters
        self._dtype = parameters[0].dtype
        self._sums_as = np.float64 if self._dtype == mindspore.float64 else np.float32
        is_rounded = comm_dtype != "float32" and self._sums_as is np.float32
        self._travels_as = _numpy_dtype(comm_dtype) if is_rounded else self._sums_as
        self.release()

    def release(self) -> None:
        """Leave the buffer to the gradients that were handed out; the next ones get another."""
        self._buffer = self._message = self._slots = None

    def _take_buffer(self):
        ends = np.cumsum([parameter.size for parameter in self._parameters])
        self._buffer = np.empty(ends[-1], self._sums_as)
        is_exact = self._travels_as is self._sums_as
        self._message = self._buffer if is_exact else np.empty(ends[-1], self._travels_as)
        self._slots = [
            self._buffer[end - parameter.size : end].reshape(parameter.shape)
            for end, parameter in zip(ends, self._parameters)
        ]

    def put(self, index: int, gradient, accumulated, share: float):
        """Take in the gradient of parameter ``index`` and, if not None, what accumulated before it.

        Returns:
            The place of the gradient in the bucket as a tensor, for backward to keep in the gradient's stead; None if
            it has another dtype.
        """
        if self._buffer is None:
            self._take_buffer()
        values = gradient.asnumpy()
        if accumulated is not None:
            values = values + accumulated.asnumpy()  # in the gradient's own dtype, as one process accumulates
        np.multiply(values, self._sums_as(share), out=self._slots[index], dtype=self._sums_as)
        place = mindspore.Tensor.from_numpy(self._slots[index])
        return place if place.dtype == gradient.dtype else None

    def start(self):
        """Start the all-reduce. To be called on all ranks, in the order of buckets. Returns the work."""
        if self._message is not self._buffer:
            self._message[...] = self._buffer
        self._work = self._collective.all_reduce(self._message)
        return self._work

    def gradients(self) -> list:
        """Wait, then the averaged gradients as tensors in the parameters' shapes and dtype.

        They share the bucket's memory.
        """
        self._work.wait()
        if self._message is not self._buffer:
            self._buffer[...] = self._message
        averaged = (mindspore.Tensor.from_numpy(slot) for slot in self._slots)
        return [tensor if tensor.dtype == self._dtype else tensor.astype(self._dtype) for tensor in averaged]

    def squares(self) -> list[float]:
        """Sums of squares of the averaged gradients, that together are the square of their norm."""
        return [square for slot in self._slots for square in _squares_on_host(slot.reshape(-1))]

    def scale(self, gradients: list, factor) -> None:
        """Multiply the averaged gradients, which ``gradients`` returned, by a scalar tensor, in place."""
        if self._dtype not in (mindspore.float32, mindspore.float64):
            _scale_each(gradients, factor)
        elif (number := factor.item()) != 1:
            np.multiply(self._buffer, self._sums_as(number), out=self._buffer)


class DeviceBucket:
    """Gradients stay on the device: packed by a concatenation, started, and sliced apart again."""

    def __init__(self, parameters, collective: Collective, comm_dtype: str = "float32"):
        self._collective = collective
        self._parameters = parameters
        self._dtype = parameters[0].dtype
        self._sums_as = mindspore.float64 if self._dtype == mindspore.float64 else mindspore.float32
        self._travels_as = getattr(mindspore, comm_dtype) if self._sums_as == mindspore.float32 else self._sums_as
        self._parts = [None] * len(parameters)

    def release(self) -> None:
        """Let go of what was packed: the gradients that were handed out are copies."""
        self._buffer = None

    def put(self, index: int, gradient, accumulated, share: float) -> None:
        """Take in the gradient of parameter ``index`` and, if not None, what accumulated before it."""
        total = gradient if accumulated is None else gradient + accumulated
        self._parts[index] = total.reshape(-1).astype(self._sums_as)
        self._share = share

    def start(self):
        """Start the all-reduce. To be called on all ranks, in the order of buckets. Returns the work."""
        self._buffer = (mindspore.ops.cat(self._parts) * self._share).astype(self._travels_as)
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

    def squares(self) -> list:
        """Sums of squares of the averaged gradients, that together are the square of their norm.

        Floats on the CPU, the same as a ``HostBucket``'s; else scalar tensors.
        """
        values = self._buffer.astype(self._sums_as)
        if mindspore.get_context("device_target") != "CPU":
            return [(values * values).sum()]
        ends = np.cumsum([parameter.size for parameter in self._parameters])
        slots = np.split(values.asnumpy(), ends[:-1])
        return [square for slot in slots for square in _squares_on_host(slot)]

    def scale(self, gradients: list, factor) -> None:
        """Multiply the averaged gradients, which ``gradients`` returned, by a scalar tensor, in place."""
        _scale_each(gradients, factor)


def _squares_on_host(values):
    """By parameter and by run, so that neither buckets nor threads nor the engine change the last bit of the norm."""
    runs = (values[begin : begin + RUN] for begin in range(0, values.size, RUN))
    return [float(np.dot(run, run)) for run in runs]


def _scale_each(gradients, factor):
    for gradient in gradients:
        wide = mindspore.float64 if gradient.dtype == mindspore.float64 else mindspore.float32
        gradient.assign_value((gradient.astype(wide) * factor.astype(wide)).astype(gradient.dtype))


def _numpy_dtype(name):
    """MindSpore brings numpy's bfloat16."""
    if name != "bfloat16":
        return np.dtype(name)
    from mindspore.common.np_dtype import bfloat16

    return bfloat16
