"""What ranks do together with MindSpore's tensors, through the plugin's engine."""

import functools

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.distributed.gather import gather_arrays
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.trainers.guard import Summed
from mindnlp_dp_plugin.trainers.mindspore.beginnings import Beginnings

OPERATIONS = {"sum": np.add, "avg": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
TENSORS = Message("tensors, in a collective of MindSpore's")
HALVES = (mindspore.float16, mindspore.bfloat16)


class Done:
    """The handle of a collective that was complete when it returned."""

    def wait(self) -> None:
        """Return at once."""


class Exchanges:
    """What all ranks do together with MindSpore's tensors; each must be called by all ranks, in the same order.

    Args:
        group: The ranks.
        summed: Notes how much the script sums.
        beginnings: Compares what ranks began with, when they sum again.
    """

    def __init__(self, group: Collective, summed: Summed, beginnings: Beginnings):
        self.group = group
        self._summed, self._beginnings = summed, beginnings

    def reduced(self, tensor: mindspore.Tensor, operation: str) -> mindspore.Tensor:
        """The sum, mean, product, least or largest over all ranks."""
        if operation not in OPERATIONS:
            raise DataParallelError(
                "op={operation!r} is not known: choose one of {choices}.",
                operation=operation,
                choices=", ".join(OPERATIONS),
            )
        self._summed.count(tensor)
        values = self._array(tensor)
        if operation in ("sum", "avg") and values.dtype == np.float32:
            total = self._sum(values)
        else:
            total = functools.reduce(OPERATIONS[operation], self.group.all_gather_object(values, TENSORS))
        if operation == "avg":
            total = total / self.group.world_size
        return self._tensor(total, tensor)

    def gathered(self, tensor: mindspore.Tensor) -> list[mindspore.Tensor]:
        """The tensor of each rank."""
        self._summed.count(tensor)  # to add up what was gathered is left to the script
        parts = gather_arrays(self._array(tensor), self.group, TENSORS)
        return [self._tensor(part, tensor) for part in parts]

    def sent(self, tensor: mindspore.Tensor, src: int) -> mindspore.Tensor:
        """The tensor of rank ``src``."""
        message = mindspore.Tensor(self._array(tensor))
        self.group.broadcast(message, src)
        return self._tensor(message.asnumpy(), tensor)

    def part(self, tensor: mindspore.Tensor) -> mindspore.Tensor:
        """This rank's part of a tensor that is cut along its first dimension."""
        length, rest = divmod(len(tensor), self.group.world_size)
        if rest:
            raise DataParallelError(
                "A tensor of {length} rows cannot be divided among {ranks} ranks: give a multiple.",
                length=len(tensor),
                ranks=self.group.world_size,
            )
        begin = self.group.rank * length
        return tensor[begin : begin + length]

    def _sum(self, values):
        if not values.size:
            return values
        # One number more travels with the script's: how many ranks have something to compare.
        asked = [] if self._beginnings.is_over else [float(self._beginnings.is_due)]
        buffer = np.concatenate([values.reshape(-1), np.array(asked, np.float32)])
        if not self.group.uses_numpy:
            buffer = mindspore.Tensor(buffer)
        self.group.all_reduce(buffer).wait()
        total = buffer if self.group.uses_numpy else buffer.asnumpy()
        if asked and total[-1]:
            self._beginnings.compare()
        total = total[: values.size].reshape(values.shape)
        self._beginnings.saw(values, total)
        return total

    @staticmethod
    def _array(tensor):
        if not hasattr(tensor, "asnumpy"):
            raise DataParallelError("{value!r} is not a tensor: give each rank's.", value=tensor)
        return (tensor.astype(mindspore.float32) if tensor.dtype in HALVES else tensor).asnumpy()

    @staticmethod
    def _tensor(values, like):
        return mindspore.Tensor(np.ascontiguousarray(values).reshape(np.shape(values)), dtype=like.dtype)
