"""A bucket of parameters of which each rank keeps its part alone."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.bucket import is_on_cpu
from mindnlp_dp_plugin.ddp.host_memory import are_views
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.fully_sharded.stand_ins import NotANumber, Untouched
from mindnlp_dp_plugin.optim.cut_buckets import SlicedBucket

READERS = ("asnumpy", "numpy", "item", "tolist", "copy", "clone", "__deepcopy__")


class SharedBucket(SlicedBucket):
    """Parameters of which this rank keeps the slices that it steps; these hold the values.

    Args:
        parameters: The parameters, of one dtype, whole and the same on all ranks. They are let go.
        names: Theirs, for messages.
        collective: The ranks that share them out.
        stand_ins: What they hold meanwhile.
    """

    def __init__(self, parameters: list, names: list[str], collective: Collective, stand_ins: Untouched | NotANumber):
        super().__init__(parameters, collective)
        self._names = names
        self.take_values()
        self.let_go(stand_ins)

    @property
    def num_bytes(self) -> int:
        """Bytes of the whole."""
        return sum(parameter.nbytes for parameter in self.parameters)

    def attach(self, gradients: Mapping[int, Any]) -> None:
        """Give this rank's slices their gradients, by the identity of the parameter; the values they have."""
        for own in self.slices:
            own.tensor.grad = gradients.get(id(own.parameter))

    def gather(self) -> None:
        """Nothing: what was stepped stays where it is."""

    def whole(self) -> list[mindspore.Tensor]:
        """The parameters' values, in memory of their own. All ranks must call it.

        Raises:
            DataParallelError: If something has assigned values to a parameter meanwhile.
        """
        self._require_let_go()
        if not self._collective.uses_numpy:
            return [part.copy() for part in self._gathered_on_device()]
        tensors = [_uninitialized(parameter) for parameter in self.parameters]
        self._gather_on_host([tensor.asnumpy().reshape(-1) for tensor in tensors])
        return tensors

    def give_back(self) -> None:
        """Make the parameters whole. All ranks must call it."""
        for parameter, tensor in zip(self.parameters, self.whole()):
            hand_out(parameter, tensor)

    def values_of(self, parameter) -> Iterator[np.ndarray]:
        """A parameter's values, one run of a few MB after the other. All ranks must use it up."""
        return self.blocks(parameter, lambda own: own.tensor.asnumpy(), self._np_dtype)

    def take(self, parameter, values_of: Callable[[int, int], np.ndarray] | None, src: int) -> None:
        """Let the ranks that keep a part of a parameter have it anew. All ranks must call it.

        Args:
            parameter: The parameter.
            values_of: Its values from an element to another, flat, on the rank that has them; None on others.
            src: That rank.
        """
        own, is_in_place = self._slice_of(parameter), is_on_cpu() and are_views()
        part = None
        if own:
            part = own.tensor.asnumpy() if is_in_place else np.empty(own.end - own.begin, self._np_dtype)
        for owner, begin, end in self._runs(parameter, self._np_dtype):
            block = np.empty(end - begin, self._np_dtype) if values_of is None else values_of(begin, end)
            block = self._broadcast(block, src)
            if owner == self._collective.rank:
                part[begin - own.begin : end - own.begin] = block
        if own and not is_in_place:
            own.tensor.assign_value(mindspore.Tensor.from_numpy(part))

    def take_values(self) -> None:
        """Let this rank's slices have what the whole parameters have."""
        for own in self.slices:
            values = own.of(own.parameter)
            own.tensor.assign_value(
                mindspore.Tensor.from_numpy(values.asnumpy().copy()) if is_on_cpu() else values.copy()
            )

    def let_go(self, stand_ins: Untouched | NotANumber) -> None:
        """Keep the slices alone."""
        self._memory = []
        for name, parameter in zip(self._names, self.parameters):
            stand_in = stand_ins.of(parameter)
            parameter.assign_value(stand_in)
            self._memory.append(stand_in._data_ptr())
            for reader in READERS:
                vars(parameter)[reader] = _refusal(name)

    @property
    def _np_dtype(self):
        return np.dtype(mindspore.dtype_to_nptype(self._dtype))

    def _require_let_go(self):
        if not is_on_cpu():
            return
        for name, parameter, address in zip(self._names, self.parameters, self._memory):
            if parameter._data_ptr() != address:
                raise DataParallelError(
                    "zero_stage=3: the script assigned other values to {name} while it was sharded. Change "
                    "parameters within mindnlp_dp_plugin.gathered_parameters(model), on all ranks.",
                    name=name,
                )


def hand_out(parameter, tensor) -> None:
    """Let a parameter hold its values again, for all who read them."""
    for reader in READERS:
        vars(parameter).pop(reader, None)
    parameter.assign_value(tensor)


def _refusal(name):
    def refuse(*args, **kwargs):
        raise DataParallelError(
            "zero_stage=3: {name} is sharded over the ranks, and is not whole here. Read it within "
            "mindnlp_dp_plugin.gathered_parameters(model), which all ranks must enter.",
            name=name,
        )

    return refuse


def _uninitialized(parameter):
    """A tensor like the parameter, in the host's memory."""
    return mindspore.Tensor.from_numpy(np.empty(parameter.shape, mindspore.dtype_to_nptype(parameter.dtype)))
