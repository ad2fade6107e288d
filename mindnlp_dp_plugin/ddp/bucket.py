"""One bucket: the gradients of a few parameters, averaged over the ranks by a single collective.

A bucket gets each gradient during backward (``put``), starts its all-reduce once (``start``), returns the means when it
is complete (``gradients``), and frees its memory before the next forward (``release``). Where a rank keeps only its
part of the means, ``start`` starts a reduce-scatter, and ``gradients`` are flat runs of elements.

Gradients are multiplied by this rank's factor, normally 1/world_size, while they are copied in: this costs no extra
pass, and half-precision sums cannot overflow. Half-precision gradients are sent and summed as float32. With a
``comm_dtype`` of two bytes, float32 is rounded to it before it is sent, as the compression hooks of torch's
DistributedDataParallel do.

Where sums follow the tree of micro-batches, a bucket is filled in each micro-step: until the last one it is held
(``hold``), and then started.
"""

import math
from importlib.metadata import version

import mindspore
import numpy as np
from packaging.version import Version

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.host_memory import are_views, sums_of_squares
from mindnlp_dp_plugin.ddp.micro_batches import MicroBatches, SumOfMicroBatches, started
from mindnlp_dp_plugin.ddp.parts import lengths_of

VIEWS_CAN_BE_ASSIGNED = Version(version("mindspore")) >= Version("2.8")  # before, that is ignored


class HostBucket:
    """A flat NumPy buffer, allocated for the first gradient; on CPU, tensors and arrays share memory.

    Args:
        parameters: The parameters.
        collective: The ranks.
        comm_dtype: The dtype in which float32 is sent.
        parts: The extents that each rank keeps; None if all keep all.
        micro_batches: Those of a step, if sums follow their tree; float32 then travels as it is.
    """

    def __init__(
        self,
        parameters,
        collective: Collective,
        comm_dtype: str = "float32",
        parts=None,
        micro_batches: MicroBatches | None = None,
    ):
        self._collective = collective
        self._sum = micro_batches and SumOfMicroBatches(micro_batches, collective)
        self._parts = parts
        self._parameters = parameters
        self._dtype = parameters[0].dtype
        self._sums_as = np.float64 if self._dtype == mindspore.float64 else np.float32
        is_rounded = comm_dtype != "float32" and self._sums_as is np.float32 and not micro_batches
        self._travels_as = numpy_dtype(comm_dtype) if is_rounded else self._sums_as
        self.release()

    def release(self) -> None:
        """Leave the buffer to the gradients that use it; the next ones get another."""
        self._buffer = self._message = self._slots = self._work = None

    def _take_buffer(self):
        ends = np.cumsum([math.prod(parameter.shape) for parameter in self._parameters])
        self._message = self._collective.memory_for(ends[-1], self._travels_as)
        is_exact = self._travels_as is self._sums_as
        self._buffer = self._message if is_exact else np.empty(ends[-1], self._sums_as)
        self._slots = [
            self._buffer[end - math.prod(parameter.shape) : end].reshape(parameter.shape)
            for end, parameter in zip(ends, self._parameters)
        ]

    def put(self, index: int, gradient, accumulated, factor: float):
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
        np.multiply(values, self._sums_as(factor), out=self._slots[index], dtype=self._sums_as)
        place = mindspore.Tensor.from_numpy(self._slots[index])
        return place if place.dtype == gradient.dtype else None

    def hold(self) -> None:
        """Add what is in it to the sum of this rank's micro-batches, and leave the buffer to that."""
        self._sum.hold(self._buffer)
        self.release()

    def start(self):
        """Start to average and return the work. All ranks must call it, in the order of buckets."""
        if self._sum:
            _, self._work = self._sum.start(self._buffer, self._parts)
            return self._work
        if self._message is not self._buffer:
            self._message[...] = self._buffer
        self._work = started(self._collective, self._message, self._parts and lengths_of(self._parts))
        return self._work

    def gradients(self) -> list:
        """Wait, and return the averaged gradients in the parameters' shapes and dtype, or the own runs of them.

        They share the bucket's memory.
        """
        self._work.wait()
        if self._parts:
            self._keep_own_part()
        elif self._message is not self._buffer:
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

    def _keep_own_part(self):
        """Let the rest of the buffer go."""
        extents = self._parts[self._collective.rank]
        self._buffer = self._work.part.astype(self._sums_as, copy=False) if extents else np.empty(0, self._sums_as)
        self._slots = [self._buffer[own.at : own.at + own.end - own.begin] for own in extents]
        self._message = self._work = None


class DeviceBucket:
    """A bucket on the device: gradients are joined, averaged, and handed out as views of the result.

    What is dispatched is what counts there: a view per gradient in, one out, and three operators per bucket. It has
    many attributes because user code runs between those.

    Args:
        parameters: The parameters.
        collective: The ranks.
        comm_dtype: The dtype in which float32 is sent.
        parts: The extents that each rank keeps; None if all keep all.
        micro_batches: Those of a step, if sums follow their tree; float32 then travels as it is.
    """

    def __init__(
        self,
        parameters,
        collective: Collective,
        comm_dtype: str = "float32",
        parts=None,
        micro_batches: MicroBatches | None = None,
    ):
        self._collective = collective
        self._sum = micro_batches and SumOfMicroBatches(micro_batches, collective)
        self._kept = parts
        self._shapes = [parameter.shape for parameter in parameters]
        if parts:
            self._shapes = [(own.end - own.begin,) for own in parts[collective.rank]]
        self._sizes = [math.prod(shape) for shape in self._shapes]
        self._dtype = parameters[0].dtype
        self._sums_as = mindspore.float64 if self._dtype == mindspore.float64 else mindspore.float32
        self._travels_as = getattr(mindspore, comm_dtype) if self._sums_as == mindspore.float32 else self._sums_as
        self._parts = [None] * len(parameters)

    def release(self) -> None:
        """Leave the buffer to the gradients that use it."""
        self._buffer = self._means = None

    def put(self, index: int, gradient, accumulated, factor: float) -> None:
        """Keep the gradient of parameter ``index``, plus what accumulated before it, if not None."""
        self._parts[index] = gradient if accumulated is None else gradient + accumulated
        self._factor = factor

    def hold(self) -> None:
        """Add what is in it to the sum of this rank's micro-batches."""
        self._sum.hold(self._flat())

    def start(self):
        """Start to average and return the work. All ranks must call it, in the order of buckets."""
        if self._sum:
            self._buffer, self._work = self._sum.start(self._flat(), self._kept)
            return self._work
        self._buffer = cast(self._flat(), self._travels_as)
        self._work = started(self._collective, self._buffer, self._kept and lengths_of(self._kept))
        return self._work

    def _flat(self):
        """The gradients, times the factor, one after the other."""
        parts, self._parts = self._parts, [None] * len(self._parts)
        if is_on_cpu() or any(part.dtype is not self._dtype for part in parts):
            parts = [cast(part, self._sums_as) for part in parts]
        return cast(mindspore.ops.cat([part.reshape(-1) for part in parts]), self._sums_as) * self._factor

    def gradients(self) -> list:
        """Wait, and return the averaged gradients in the parameters' shapes and dtype, or the own runs of them."""
        self._work.wait()
        if self._kept:
            self._buffer, self._work = self._work.part, None
        if not self._sizes:
            return []
        if is_on_cpu():
            # Half precision is cast one by one: for bfloat16 MindSpore has few operators on CPU.
            self._means = cast(self._buffer, self._sums_as)
            return [cast(gradient, self._dtype) for gradient in views(self._means, self._sizes, self._shapes)]
        self._means = cast(self._buffer, self._dtype)
        return views(self._means, self._sizes, self._shapes)

    def squares(self) -> list:
        """Sums of squares of the averaged gradients; their sum is the square of the norm.

        On CPU they are floats, equal to a ``HostBucket``'s; otherwise scalar tensors.
        """
        if not self._sizes:
            return []
        values = cast(self._buffer, self._sums_as)
        if not is_on_cpu():
            return [(values * values).sum()]
        slots = np.split(values.asnumpy(), np.cumsum(self._sizes)[:-1])
        return [square for slot in slots for square in sums_of_squares(slot)]

    def scale(self, gradients: list, factor) -> None:
        """Multiply the averaged ``gradients`` by a scalar tensor, in place."""
        if gradients and share_memory() and self._means.dtype == self._dtype:
            scaled = cast(self._means, self._sums_as) * cast(factor, self._sums_as)
            mindspore.ops.assign(self._means, cast(scaled, self._dtype))
        else:
            scale_each(gradients, factor)


def views(flat, sizes: list[int], shapes: list[tuple[int, ...]]) -> list:
    """Tensors of these shapes that follow each other in a flat one: in its memory, if ``share_memory()``."""
    if is_on_cpu():
        # No views: MindSpore's operators for CPU read a copy of a view, and write to the copy in its place.
        array, ends = flat.asnumpy(), np.cumsum(sizes).tolist()
        places = zip(ends, sizes, shapes)
        return [mindspore.Tensor.from_numpy(array[end - size : end].reshape(shape)) for end, size, shape in places]
    parts = [part.reshape(shape) for part, shape in zip(mindspore.mint.split(flat, sizes), shapes)]
    return parts if share_memory() else [part.copy() for part in parts]


def share_memory() -> bool:
    """Whether ``views`` can share memory."""
    return are_views() if is_on_cpu() else VIEWS_CAN_BE_ASSIGNED


def is_on_cpu() -> bool:
    """Whether tensors are in the host's memory."""
    return mindspore.get_context("device_target") == "CPU"


def cast(tensor, dtype):
    """A tensor in a dtype; itself, if it has it: MindSpore's ``astype`` is an operator even then."""
    return tensor if tensor.dtype == dtype else tensor.astype(dtype)


def scale_each(gradients: list, factor) -> None:
    """Multiply gradients by a scalar tensor, in place."""
    for gradient in gradients:
        wide = mindspore.float64 if gradient.dtype == mindspore.float64 else mindspore.float32
        gradient.assign_value(cast(cast(gradient, wide) * cast(factor, wide), gradient.dtype))


def numpy_dtype(name):
    """The NumPy dtype of a name; bfloat16 is MindSpore's."""
    if name != "bfloat16":
        return np.dtype(name)
    from mindspore.common.np_dtype import bfloat16

    return bfloat16
