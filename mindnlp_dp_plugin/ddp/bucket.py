"""One bucket: the gradients of a few parameters, averaged over the ranks by a single all-reduce.

A bucket gets each gradient during backward (``put``), starts its all-reduce once (``start``), returns the means when it
is complete (``gradients``), and frees its memory before the next forward (``release``). Gradients are multiplied by
this rank's share, normally 1/world_size, while they are copied in: this costs no extra pass, and half-precision sums
cannot overflow. Half-precision gradients are sent and summed as float32. With a ``comm_dtype`` of two bytes, float32 is
rounded to it before it is sent, as the compression hooks of torch's DistributedDataParallel do.
"""

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.cpu_operators.arrays import sums_of_squares


class HostBucket:
    """A flat NumPy buffer, allocated for the first gradient; on CPU, tensors and arrays share memory."""

    def __init__(self, parameters, collective: Collective, comm_dtype: str = "float32"):
        self._collective = collective
        self._parameters = parameters
        self._dtype = parameters[0].dtype
        self._sums_as = np.float64 if self._dtype == mindspore.float64 else np.float32
        is_rounded = comm_dtype != "float32" and self._sums_as is np.float32
        self._travels_as = numpy_dtype(comm_dtype) if is_rounded else self._sums_as
        self.release()

    def release(self) -> None:
        """Leave the buffer to the gradients that use it; the next ones get another."""
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
        """Copy in the gradient of parameter ``index``, plus what accumulated before it, if not None.

        Returns:
            The gradient's place in the bucket as a tensor, which backward keeps instead of the gradient; None if it has
            another dtype.
        """
        if self._buffer is None:
            self._take_buffer()
        values = gradient.asnumpy()
        if accumulated is not None:
            values = values + accumulated.asnumpy()  # in the gradient's dtype, as one process accumulates
        np.multiply(values, self._sums_as(share), out=self._slots[index], dtype=self._sums_as)
        place = mindspore.Tensor.from_numpy(self._slots[index])
        return place if place.dtype == gradient.dtype else None

    def start(self):
        """Start the all-reduce and return its work. All ranks must call it, in the order of buckets."""
        if self._message is not self._buffer:
            self._message[...] = self._buffer
        self._work = self._collective.all_reduce(self._message)
        return self._work

    def gradients(self) -> list:
        """Wait, and return the averaged gradients in the parameters' shapes and dtype.

        They share the bucket's memory.
        """
        self._work.wait()
        if self._message is not self._buffer:
            self._buffer[...] = self._message
        averaged = (mindspore.Tensor.from_numpy(slot) for slot in self._slots)
        return [tensor if tensor.dtype == self._dtype else tensor.astype(self._dtype) for tensor in averaged]

    def squares(self) -> list[float]:
        """Sums of squares of the averaged gradients; their sum is the square of the norm."""
        return [square for slot in self._slots for square in sums_of_squares(slot)]

    def scale(self, gradients: list, factor) -> None:
        """Multiply the averaged ``gradients`` by a scalar tensor, in place."""
        if self._dtype not in (mindspore.float32, mindspore.float64):
            scale_each(gradients, factor)
        elif (number := factor.item()) != 1:
            np.multiply(self._buffer, self._sums_as(number), out=self._buffer)


class DeviceBucket:
    """A bucket on the device: gradients are concatenated, all-reduced, and sliced apart."""

    def __init__(self, parameters, collective: Collective, comm_dtype: str = "float32"):
        self._collective = collective
        self._parameters = parameters
        self._dtype = parameters[0].dtype
        self._sums_as = mindspore.float64 if self._dtype == mindspore.float64 else mindspore.float32
        self._travels_as = getattr(mindspore, comm_dtype) if self._sums_as == mindspore.float32 else self._sums_as
        self._parts = [None] * len(parameters)

    def release(self) -> None:
        """Free the concatenated gradients; those returned are copies."""
        self._buffer = None

    def put(self, index: int, gradient, accumulated, share: float) -> None:
        """Keep the gradient of parameter ``index``, plus what accumulated before it, if not None."""
        total = gradient if accumulated is None else gradient + accumulated
        self._parts[index] = total.reshape(-1).astype(self._sums_as)
        self._share = share

    def start(self):
        """Start the all-reduce and return its work. All ranks must call it, in the order of buckets."""
        self._buffer = (mindspore.ops.cat(self._parts) * self._share).astype(self._travels_as)
        self._parts = [None] * len(self._parameters)
        self._work = self._collective.all_reduce(self._buffer)
        return self._work

    def gradients(self) -> list:
        """Wait, and return the averaged gradients in the parameters' shapes and dtype."""
        self._work.wait()
        averaged, begin = [], 0
        for parameter in self._parameters:
            part = self._buffer[begin : begin + parameter.size].reshape(parameter.shape)
            # Not the slice itself: MindSpore 2.7 ignores an assignment to a view, and clipping assigns.
            averaged.append(part.copy() if part.dtype == self._dtype else part.astype(self._dtype))
            begin += parameter.size
        return averaged

    def squares(self) -> list:
        """Sums of squares of the averaged gradients; their sum is the square of the norm.

        On CPU they are floats, equal to a ``HostBucket``'s; otherwise scalar tensors.
        """
        values = self._buffer.astype(self._sums_as)
        if mindspore.get_context("device_target") != "CPU":
            return [(values * values).sum()]
        ends = np.cumsum([parameter.size for parameter in self._parameters])
        slots = np.split(values.asnumpy(), ends[:-1])
        return [square for slot in slots for square in sums_of_squares(slot)]

    def scale(self, gradients: list, factor) -> None:
        """Multiply the averaged ``gradients`` by a scalar tensor, in place."""
        scale_each(gradients, factor)


def scale_each(gradients: list, factor) -> None:
    """Multiply gradients by a scalar tensor, in place."""
    for gradient in gradients:
        wide = mindspore.float64 if gradient.dtype == mindspore.float64 else mindspore.float32
        gradient.assign_value((gradient.astype(wide) * factor.astype(wide)).astype(gradient.dtype))


def numpy_dtype(name):
    """The NumPy dtype of a name; bfloat16 is MindSpore's."""
    if name != "bfloat16":
        return np.dtype(name)
    from mindspore.common.np_dtype import bfloat16

    return bfloat16
