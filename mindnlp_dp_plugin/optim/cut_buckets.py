"""Parameters joined into buckets of which each rank steps a part, slice by slice."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.parts import cut, lengths_of, run_of

BLOCK_BYTES = 4 * 2**20  # of its part that a rank sends at a time, where host memory is gathered


class Slice:
    """A run of elements of a parameter, which this rank steps.

    Attributes:
        parameter: The whole.
        index: Its place in the bucket.
        begin: The first of the elements.
        end: The one after the last.
        at: Where the run begins within this rank's part of the bucket.
        tensor: The parameter that the optimizer steps instead; states are kept for it.
    """

    def __init__(self, parameter, index: int, begin: int, end: int, at: int):
        self.parameter = parameter
        self.index, self.begin, self.end, self.at = index, begin, end, at
        from mindnlp.core import nn  # MindNLP 0.5 has none, and no zero_stage

        self.tensor = nn.Parameter(self.of(parameter))

    def of(self, tensor):
        """This run of elements of a tensor like the parameter; on CPU the two share memory."""
        return run_of(tensor, self.begin, self.end)

    def attach(self, gradient=None) -> None:
        """Take over the value of the whole, and its gradient, if it is attached to it; otherwise the one given."""
        attached = self.parameter.grad
        self.tensor.assign_value(self.of(self.parameter))
        self.tensor.grad = gradient if attached is None else self.of(attached)


class SlicedBucket:
    """Parameters of one dtype that follow each other, and the part of their elements that this rank steps.

    Args:
        parameters: The parameters.
        collective: The ranks that share them out.

    Attributes:
        parameters: The same.
        parts: The runs of elements that make up the part of each rank.
        slices: Those of this rank.
    """

    def __init__(self, parameters: list, collective: Collective):
        self.parameters = parameters
        self._collective = collective
        sizes = [parameter.size for parameter in parameters]
        self._places = [slice(end - size, end) for end, size in zip(np.cumsum(sizes).tolist(), sizes)]
        self.parts = cut(sizes, collective.world_size)
        self._lengths = lengths_of(self.parts)
        self._longest = max(self._lengths)  # others are padded to it, as gathered parts have one length
        self.slices = [Slice(parameters[extent.index], *extent) for extent in self.parts[collective.rank]]

    def gather(self) -> None:
        """Give the parameters what all ranks have stepped their slices to. All ranks must call it."""
        if self._collective.uses_numpy:
            self._gather_on_host([parameter.asnumpy().reshape(-1) for parameter in self.parameters])
            return
        for parameter, values in zip(self.parameters, self._gathered_on_device()):
            parameter.assign_value(values.copy())

    def attach(self, gradients: Mapping[int, Any]) -> None:
        """Let this rank's slices have the values of the whole parameters, and their gradients.

        Args:
            gradients: Where none is attached to a parameter, by its identity.
        """
        for own in self.slices:
            own.attach(gradients.get(id(own.parameter)))

    def _gathered_on_device(self):
        """What all ranks have stepped, in the parameters' shapes."""
        padding = mindspore.ops.zeros(self._longest - sum(own.tensor.size for own in self.slices), self._dtype)
        padded = self._collective.all_gather(mindspore.ops.cat([*(own.tensor for own in self.slices), padding]))
        flat = mindspore.ops.cat(self._without_padding(padded))
        return [flat[place].reshape(parameter.shape) for parameter, place in zip(self.parameters, self._places)]

    def _gather_on_host(self, memories):
        """Write what all ranks have stepped into flat arrays, one for each parameter."""
        for first, values in self._blocks([own.tensor.asnumpy() for own in self.slices], memories[0].dtype):
            for memory, place in zip(memories, self._places):
                low, high = max(first, place.start), min(first + values.size, place.stop)
                if low < high:
                    memory[low - place.start : high - place.start] = values[low - first : high - first]

    def _blocks(self, arrays, dtype):
        """What all ranks have, block by block, so that no buffer of the bucket's size is needed: begin and values."""
        block = BLOCK_BYTES // np.dtype(dtype).itemsize
        for begin in range(0, self._longest, block):
            part = self._part(arrays, dtype, begin, min(begin + block, self._longest))
            for rank, values in enumerate(np.split(self._collective.all_gather(part), self._collective.world_size)):
                if begin < self._lengths[rank]:
                    yield sum(self._lengths[:rank]) + begin, values[: self._lengths[rank] - begin]

    def blocks(self, parameter, values_of: Callable[[Slice], np.ndarray], dtype: np.dtype) -> Iterator[np.ndarray]:
        """What belongs to a parameter, flat, one run of a few MB after the other. All ranks must use it up.

        Args:
            parameter: The parameter.
            values_of: What belongs to a slice of this rank's, of its length.
            dtype: The dtype of the values.
        """
        own = self._slice_of(parameter)
        values = values_of(own) if own else None  # once, as a device copies all of them
        for owner, begin, end in self._runs(parameter, dtype):
            block = np.empty(end - begin, dtype)
            if owner == self._collective.rank:
                block[...] = values[begin - own.begin : end - own.begin]
            yield self._broadcast(block, owner)

    @property
    def _dtype(self):
        return self.parameters[0].dtype

    def _runs(self, parameter, dtype):
        """The rank that keeps it, begin and end of each run of the parameter, in order."""
        length = max(1, BLOCK_BYTES // dtype.itemsize)
        for rank, extents in enumerate(self.parts):
            for extent in extents:
                if self.parameters[extent.index] is parameter:
                    for begin in range(extent.begin, extent.end, length):
                        yield rank, begin, min(begin + length, extent.end)

    def _slice_of(self, parameter):
        """This rank's, of which there is one at most."""
        return next((own for own in self.slices if own.parameter is parameter), None)

    def _broadcast(self, block, src):
        tensor = mindspore.Tensor.from_numpy(block)
        self._collective.broadcast(tensor, src)
        return tensor.asnumpy()

    def _without_padding(self, padded):
        """What each rank has, of an array or a tensor that all have gathered."""
        begins = range(0, len(self._lengths) * self._longest, self._longest)
        return [padded[begin : begin + length] for begin, length in zip(begins, self._lengths) if length]

    def _part(self, arrays, dtype, begin, end):
        """A run of this rank's part, given the values of its slices."""
        part = np.zeros(end - begin, dtype)
        for own, values in zip(self.slices, arrays):
            low, high = max(begin, own.at), min(end, own.at + values.size)
            if low < high:
                part[low - begin : high - begin] = values[low - own.at : high - own.at]
        return part
