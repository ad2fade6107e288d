"""Optimizer states shared out over the ranks: each keeps and steps an equal part of all elements.

Source: stage 1 of "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (Rajbhandari et al., 2020).
Parameters are joined into flat buckets, and each bucket is cut into equal parts by element. A rank steps its part as
slices of parameters, each in the parameter group of the whole, and all ranks gather what was stepped.
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import mindspore
import numpy as np
from mindnlp.core import nn

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.cpu_operators.arrays import are_views
from mindnlp_dp_plugin.ddp.bucket import numpy_dtype
from mindnlp_dp_plugin.ddp.parts import cut, part_length, run_of
from mindnlp_dp_plugin.ddp.plan import plan_buckets
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.optim.elementwise import require_elementwise
from mindnlp_dp_plugin.optim.parameters import stepped_parameters

BLOCK_BYTES = 4 * 2**20  # of its part that a rank sends at a time, where host memory is gathered
_sharded = WeakKeyDictionary()


def share_states(optimizer, collective: Collective, bucket_cap_mb: float | None = None) -> "ShardedStates":
    """Share out the states of an optimizer from now on, or go on doing so. All ranks must call it.

    Raises:
        DataParallelError: If the optimizer does not step each element by itself, or MindSpore cannot cut tensors.
    """
    if optimizer not in _sharded:
        _require_views()
        require_elementwise(optimizer)
        _sharded[optimizer] = ShardedStates(optimizer, collective, bucket_cap_mb)
    _sharded[optimizer].take_in()
    return _sharded[optimizer]


def _require_views():
    if mindspore.get_context("device_target") == "CPU" and not are_views():
        raise DataParallelError(
            "zero_stage cannot cut the tensors of MindSpore {version}, which on CPU gives copies of what it has "
            "computed. Install MindSpore 2.10, or leave zero_stage out.",
            version=mindspore.__version__,
        )


def join_states(optimizer) -> None:
    """Give an optimizer its whole states again, if they were shared out. All ranks must call it."""
    if optimizer in _sharded:
        _sharded.pop(optimizer).join()


def send_states(optimizer) -> None:
    """Take part in another rank's ``optimizer.state_dict()``, if its states are shared out."""
    if optimizer in _sharded:
        _sharded[optimizer].gather(keep=False)


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
        self.tensor = nn.Parameter(self.of(parameter))

    def of(self, tensor):
        """The same elements of a tensor like the parameter; on CPU they share its memory."""
        return run_of(tensor, self.begin, self.end)

    def attach(self, gradient=None) -> None:
        """Take over the value of the whole, and its gradient, if it is attached to it; otherwise the one given."""
        attached = self.parameter.grad
        self.tensor.assign_value(self.of(self.parameter))
        self.tensor.grad = gradient if attached is None else self.of(attached)


class Bucket:
    """Parameters of one dtype that follow each other, and the part of their elements that this rank steps.

    Args:
        parameters: The parameters.
        collective: The ranks that share them out.

    Attributes:
        parameters: The same.
        slices: The runs of elements that make up this rank's part.
    """

    def __init__(self, parameters: list, collective: Collective):
        self.parameters = parameters
        self._collective = collective
        sizes = [parameter.size for parameter in parameters]
        self._length = part_length(sizes, collective.world_size)
        self._places = [slice(end - size, end) for end, size in zip(np.cumsum(sizes).tolist(), sizes)]
        extents = cut(sizes, collective.world_size)[collective.rank]
        self.slices = [Slice(parameters[extent.index], *extent) for extent in extents]

    def gather(self) -> None:
        """Give the parameters what all ranks have stepped their slices to. All ranks must call it."""
        if self._collective.uses_numpy:
            self._gather_on_host()
            return
        padding = mindspore.ops.zeros(self._length - sum(own.tensor.size for own in self.slices), self._dtype)
        flat = self._collective.all_gather(mindspore.ops.cat([*(own.tensor for own in self.slices), padding]))
        for parameter, place in zip(self.parameters, self._places):
            parameter.assign_value(flat[place].reshape(parameter.shape).copy())

    def _gather_on_host(self):
        """Block by block, so that a large parameter needs no buffer of its size."""
        arrays = [own.tensor.asnumpy() for own in self.slices]
        memories = [parameter.asnumpy().reshape(-1) for parameter in self.parameters]
        block = BLOCK_BYTES // memories[0].itemsize
        for begin in range(0, self._length, block):
            part = self._part(arrays, memories[0].dtype, begin, min(begin + block, self._length))
            blocks = np.split(self._collective.all_gather(part), self._collective.world_size)
            for rank, values in enumerate(blocks):
                first = rank * self._length + begin
                for memory, place in zip(memories, self._places):
                    low, high = max(first, place.start), min(first + values.size, place.stop)
                    if low < high:
                        memory[low - place.start : high - place.start] = values[low - first : high - first]

    def gather_states(self, values: list, dtype: np.dtype) -> list[np.ndarray]:
        """One state of all parameters, whole. All ranks must call it.

        Args:
            values: This state of each of this rank's slices; None where a slice has none.
            dtype: The dtype it is kept in.
        """
        arrays = [
            np.zeros(own.tensor.size, dtype) if value is None else value.asnumpy()
            for own, value in zip(self.slices, values)
        ]
        flat = self._joined(arrays, dtype)
        return [flat[place].reshape(parameter.shape) for parameter, place in zip(self.parameters, self._places)]

    @property
    def _dtype(self):
        return self.parameters[0].dtype

    def _joined(self, arrays, dtype):
        part = self._part(arrays, dtype, 0, self._length)
        if self._collective.uses_numpy:
            return self._collective.all_gather(part)
        return self._collective.all_gather(mindspore.Tensor.from_numpy(part)).asnumpy()

    def _part(self, arrays, dtype, begin, end):
        """A run of this rank's part, given the values of its slices."""
        part = np.zeros(end - begin, dtype)
        for own, values in zip(self.slices, arrays):
            low, high = max(begin, own.at), min(end, own.at + values.size)
            if low < high:
                part[low - begin : high - begin] = values[low - own.at : high - own.at]
        return part


class Cut(NamedTuple):
    """Stands for a tensor of which each rank keeps a slice.

    Attributes:
        dtype: The name of its dtype in NumPy.
    """

    dtype: str


class ShardedStates:
    """Steps an optimizer by slices, and keeps the states of this rank's slices alone.

    Between steps ``optimizer.state`` is empty. Whole states that something puts there, as ``load_state_dict`` does, are
    cut at the next step. ``optimizer.state_dict()`` gathers whole states: all ranks must call it.

    Args:
        optimizer: It steps each element by itself (``require_elementwise``).
        collective: The ranks that share its states.
        bucket_cap_mb: Size in MB at which a bucket is full; None for the engine's default.
    """

    def __init__(self, optimizer, collective: Collective, bucket_cap_mb: float | None = None):
        self._optimizer = optimizer
        self._collective = collective
        self._cap_mb = collective.bucket_cap_mb if bucket_cap_mb is None else bucket_cap_mb
        self._states = defaultdict(dict)  # by the slices' tensors
        self._parameters, self._buckets = [], []
        self._hook = optimizer.register_state_dict_post_hook(self._with_whole_states)

    @property
    def num_bytes(self) -> int:
        """Bytes of the states that this rank keeps."""
        values = (value for state in self._states.values() for value in state.values())
        return sum(value.nbytes for value in values if isinstance(value, mindspore.Tensor))

    def take_in(self) -> None:
        """Follow the optimizer's parameters, and cut whole states that it holds. All ranks must call it."""
        parameters, optimizer = stepped_parameters(self._optimizer), self._optimizer
        if list(map(id, parameters)) != list(map(id, self._parameters)):
            optimizer.state = {**self.gather(), **optimizer.state}
            self._lay_out(parameters)
        if optimizer.state:
            self._states = self._cut(optimizer.state)
        optimizer.state = defaultdict(dict)

    @property
    def runs(self) -> dict[int, tuple[int, int]]:
        """The first and the end of the elements that this rank steps, by the identity of their parameter."""
        return {id(own.parameter): (own.begin, own.end) for own in self._slices()}

    def step(self, stock: Callable[[], Any], gradients: Mapping[int, Any]) -> Any:
        """Step this rank's slices by ``stock``, then gather all parameters. All ranks must call it.

        Args:
            stock: The optimizer's own step.
            gradients: Those of the slices, where none is attached to a parameter, by the identity of the parameter.
        """
        self.take_in()
        groups = self._optimizer.param_groups
        whole = [group["params"] for group in groups]
        for own in self._slices():
            own.attach(gradients.get(id(own.parameter)))
        for group in groups:
            places = map(id, group["params"])
            group["params"] = [self._slice_of[place].tensor for place in places if place in self._slice_of]
        self._optimizer.state = self._states
        try:
            result = stock()
        finally:
            for group, parameters in zip(groups, whole):
                group["params"] = parameters
            self._optimizer.state = defaultdict(dict)
            for own in self._slices():
                own.tensor.grad = None
        for bucket in self._buckets:
            bucket.gather()
        return result

    def join(self) -> None:
        """Give the optimizer whole states, and let it go. All ranks must call it."""
        self.take_in()
        self._optimizer.state = defaultdict(dict, self.gather())
        self._hook.remove()

    def gather(self, keep: bool = True) -> dict:
        """Whole states by parameter, in the optimizer's order, in host memory. All ranks must call it.

        Args:
            keep: Whether this rank wants them. Otherwise it only sends, and holds a bucket of one state at a time.
        """
        mine = [
            {own.index: _described(self._states.get(own.tensor, {}), own.tensor) for own in bucket.slices}
            for bucket in self._buckets
        ]
        everyone = self._collective.all_gather_object(mine) if mine else []
        whole = {}
        for bucket, own_states, *described in zip(self._buckets, mine, *everyone):
            states = {index: dict(state) for of_rank in reversed(described) for index, state in of_rank.items()}
            kinds = {(name, value) for state in states.values() for name, value in state.items() if type(value) is Cut}
            for name, kind in sorted(kinds):
                values = [
                    self._states[own.tensor][name] if own_states[own.index].get(name) == kind else None
                    for own in bucket.slices
                ]
                for index, array in enumerate(bucket.gather_states(values, numpy_dtype(kind.dtype))):
                    if keep and states.get(index, {}).get(name) == kind:
                        states[index][name] = mindspore.Tensor.from_numpy(array.copy())
            whole |= {id(bucket.parameters[index]): state for index, state in states.items() if state}
        if not keep:
            return {}
        others = {key: state for key, state in self._states.items() if not isinstance(key, mindspore.Tensor)}
        # Names are interned, as those of states that one process made: then a checkpoint has the same bytes.
        return {
            parameter: {sys.intern(name): value for name, value in whole[id(parameter)].items()}
            for parameter in self._parameters
            if id(parameter) in whole
        } | others

    def _lay_out(self, parameters):
        plan = plan_buckets(parameters, range(len(parameters)), self._cap_mb)
        self._parameters = parameters
        self._buckets = [Bucket([parameters[index] for index in ids], self._collective) for ids in plan]
        self._slice_of = {id(own.parameter): own for own in self._slices()}

    def _slices(self) -> Iterator[Slice]:
        return (own for bucket in self._buckets for own in bucket.slices)

    def _cut(self, whole):
        """This rank's slices of whole states, in memory of their own."""
        states = defaultdict(dict)
        for key, state in whole.items():
            if not isinstance(key, mindspore.Tensor):
                states[key] = state
            elif own := self._slice_of.get(id(key)):
                states[own.tensor] = {
                    name: mindspore.Tensor.from_numpy(own.of(value).asnumpy().copy()) if _is_like(value, key) else value
                    for name, value in state.items()
                }
        return states

    def _with_whole_states(self, optimizer, state_dict):
        """What ``optimizer.state_dict()`` returns instead."""
        self.take_in()
        groups = zip(optimizer.param_groups, state_dict["param_groups"])
        places = {
            id(parameter): place
            for group, saved in groups
            for parameter, place in zip(group["params"], saved["params"])
        }
        return {**state_dict, "state": {places.get(id(key), key): state for key, state in self.gather().items()}}


def _described(state, tensor):
    """The state of a slice, without the tensors that are cut as it is."""
    return {
        name: Cut(value.asnumpy().dtype.name) if _is_like(value, tensor) else value for name, value in state.items()
    }


def _is_like(value, tensor):
    return isinstance(value, mindspore.Tensor) and value.shape == tensor.shape
