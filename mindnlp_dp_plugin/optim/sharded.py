"""Optimizer states shared out over the ranks: each keeps and steps its part of all elements.

Source: stage 1 of "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (Rajbhandari et al., 2020).
Parameters are joined into flat buckets, from the last of the model to the first, as backward meets them, and each
bucket is cut into a part per rank. A rank steps its part as slices of parameters, each in the parameter group of the
whole, and all ranks gather what was stepped.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.ddp.bucket import numpy_dtype
from mindnlp_dp_plugin.ddp.host_memory import are_views
from mindnlp_dp_plugin.ddp.plan import plan_buckets
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.optim.cut_buckets import Slice, SlicedBucket
from mindnlp_dp_plugin.optim.elementwise import require_elementwise
from mindnlp_dp_plugin.optim.gathering import Cut, LazyTensor, StoredTensor
from mindnlp_dp_plugin.optim.parameters import named_parameters, stepped_parameters

_sharded = WeakKeyDictionary()

Layout = Callable[[list], list[SlicedBucket]]
"""Joins parameters into buckets, given them in the order in which backward meets them."""


def share_states(
    optimizer, model, collective: Collective, bucket_cap_mb: float | None = None, layout: "Layout | None" = None
) -> "ShardedStates":
    """Share out the states of an optimizer from now on, or go on doing so. All ranks must call it.

    Args:
        optimizer: The optimizer.
        model: The model whose parameters it steps.
        collective: The ranks that share its states.
        bucket_cap_mb: Size in MB at which a bucket is full; None for the engine's default.
        layout: Joins parameters into buckets in place of that size.

    Raises:
        DataParallelError: If the optimizer does not step each element by itself, or MindSpore cannot cut tensors.
    """
    if optimizer not in _sharded:
        _require_views()
        require_elementwise(optimizer)
        _sharded[optimizer] = ShardedStates(optimizer, collective, bucket_cap_mb)
    _sharded[optimizer].lay_out_by(model, layout)
    _sharded[optimizer].take_in()
    return _sharded[optimizer]


def states_of(optimizer) -> "ShardedStates | None":
    """What shares out the states of an optimizer, if it was told to."""
    return _sharded.get(optimizer)


def _require_views():
    if mindspore.get_context("device_target") == "CPU" and not are_views():
        raise DataParallelError(
            "zero_stage cannot cut the tensors of MindSpore {version}, which on CPU returns copies of its results. "
            "Install MindSpore 2.10, or leave zero_stage out.",
            version=mindspore.__version__,
        )


def join_states(optimizer) -> None:
    """Give an optimizer its whole states again, if they were shared out. All ranks must call it."""
    if optimizer in _sharded:
        _sharded.pop(optimizer).join()


def send_states(optimizer) -> None:
    """Take part in another rank's ``optimizer.state_dict()``, if its states are shared out."""
    if optimizer in _sharded:
        _sharded[optimizer].send()


@contextmanager
def states_later(optimizer) -> Iterator[None]:
    """Within the block ``state_dict`` has a ``LazyTensor`` in place of each tensor that is shared out. On all ranks."""
    if optimizer not in _sharded:
        yield
        return
    _sharded[optimizer].are_later = True
    try:
        yield
    finally:
        _sharded[optimizer].are_later = False


class ShardedStates:
    """Steps an optimizer by slices, and keeps the states of this rank's slices alone.

    Between steps ``optimizer.state`` is empty. Whole states that something puts there, as ``load_state_dict`` does, are
    cut at the next step. ``optimizer.state_dict()`` gathers whole states: all ranks must call it.

    Args:
        optimizer: It steps each element by itself (``require_elementwise``).
        collective: The ranks that share its states.
        bucket_cap_mb: Size in MB at which a bucket is full; None for the engine's default.

    Attributes:
        are_later: Whether ``state_dict`` has a ``LazyTensor`` in place of each tensor.
        buckets: How the parameters were laid out and cut by the latest ``take_in``; the same list until that changes.
    """

    def __init__(self, optimizer, collective: Collective, bucket_cap_mb: float | None = None):
        self.are_later = False
        self._optimizer = optimizer
        self._collective = collective
        self._cap_mb = collective.bucket_cap_mb if bucket_cap_mb is None else bucket_cap_mb
        self._states = defaultdict(dict)  # by the slices' tensors
        self.buckets: list[SlicedBucket] = []
        self._parameters, self._slice_of = [], {}
        self._model = self._layout = None
        self._hook = optimizer.register_state_dict_post_hook(self._with_whole_states)

    @property
    def num_bytes(self) -> int:
        """Bytes of the states that this rank keeps."""
        values = (value for state in self._states.values() for value in state.values())
        return sum(value.nbytes for value in values if isinstance(value, mindspore.Tensor))

    def lay_out_by(self, model, layout: Layout | None) -> None:
        """Join a model's parameters by ``layout`` from the next ``take_in`` on; None for buckets of a size."""
        if layout != self._layout:
            self._parameters = []
        self._model, self._layout = model, layout

    def take_in(self) -> None:
        """Follow the optimizer's parameters, and cut whole states that it holds. All ranks must call it."""
        parameters, optimizer = stepped_parameters(self._optimizer), self._optimizer
        has_changed = list(map(id, parameters)) != list(map(id, self._parameters))
        if has_changed:
            self._lay_out()
            self._parameters = parameters
        if optimizer.state:
            before = self._states if has_changed else {}
            self._states = defaultdict(dict, {**before, **self._cut(optimizer.state)})
        optimizer.state = defaultdict(dict)

    def step(self, stock: Callable[[], Any], gradients: Mapping[int, Any]) -> Any:
        """Step this rank's slices by ``stock``, then gather all parameters. All ranks must call it.

        Args:
            stock: The optimizer's own step.
            gradients: Those of the slices, where none is attached to a parameter, by the identity of the parameter.
        """
        self.take_in()
        groups = self._optimizer.param_groups
        whole = [group["params"] for group in groups]
        for bucket in self.buckets:
            bucket.attach(gradients)
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
        for bucket in self.buckets:
            bucket.gather()
        return result

    def join(self) -> None:
        """Give the optimizer whole states, and let it go. All ranks must call it."""
        self.take_in()
        self._optimizer.state = defaultdict(dict, self.gather())
        self._hook.remove()

    def gather(self) -> dict:
        """Whole states by parameter, in the optimizer's order, in host memory. All ranks must call it."""
        return {key: _gathered(state) for key, state in self._later().items()}

    def send(self) -> None:
        """Take part in another rank's ``state_dict``, holding a tensor at a time."""
        for state in self._later().values():
            for value in state.values():
                if type(value) is LazyTensor:
                    value.gather()

    def _later(self):
        """As ``gather``, with a ``LazyTensor`` in place of each tensor that is shared out. All ranks must call it."""
        later = {}
        for bucket, states in zip(self.buckets, self._described()):
            for index, state in states.items():
                parameter = bucket.parameters[index]
                later[id(parameter)] = {
                    name: LazyTensor(partial(self._whole, bucket, parameter, name, numpy_dtype(value.dtype)))
                    if type(value) is Cut
                    else value
                    for name, value in state.items()
                }
        others = {key: state for key, state in self._states.items() if not isinstance(key, mindspore.Tensor)}
        return {parameter: later[id(parameter)] for parameter in self._parameters if later.get(id(parameter))} | others

    def _described(self):
        """For each bucket what states its parameters have on any rank, by their place."""
        mine = [
            {own.index: _described(self._states.get(own.tensor, {}), own.tensor) for own in bucket.slices}
            for bucket in self.buckets
        ]
        everyone = self._collective.all_gather_object(mine, Message("states of the optimizer")) if mine else []
        return [
            {index: state for of_rank in reversed(described) for index, state in of_rank.items()}
            for described in zip(*everyone)
        ]

    def _whole(self, bucket, parameter, name, dtype):
        """A parameter's state, whole; zeros where a rank has none. All ranks must call it."""
        whole, end = np.empty(parameter.size, dtype), 0

        def values_of(own):
            value = self._states.get(own.tensor, {}).get(name)
            array = None if value is None else value.asnumpy()
            return np.zeros(own.tensor.size, dtype) if array is None or array.dtype != dtype else array

        for block in bucket.blocks(parameter, values_of, dtype):
            whole[end : end + block.size] = block
            end += block.size
        return whole.reshape(parameter.shape)

    def _lay_out(self):
        """Join and cut the parameters, and take what states there are along, bucket by bucket."""
        order = list(named_parameters(self._model, self._optimizer).values())[::-1]
        buckets = self._layout(order) if self._layout else self._by_size(order)
        slice_of = {id(own.parameter): own for bucket in buckets for own in bucket.slices}
        states = {}
        for parameter, later in self._later().items():
            state = _gathered(later)
            if own := self._slice_of.get(id(parameter)):
                self._states.pop(own.tensor, None)  # so that never two copies of this rank's part are held
            if own := slice_of.get(id(parameter)):
                states[own.tensor] = _cut(state, own)
        others = {key: state for key, state in self._states.items() if not isinstance(key, mindspore.Tensor)}
        self.buckets, self._slice_of, self._states = buckets, slice_of, defaultdict(dict, states | others)

    def _by_size(self, order):
        return [SlicedBucket(bucket, self._collective) for bucket in plan_buckets(order, self._cap_mb)]

    def _slices(self) -> Iterator[Slice]:
        return (own for bucket in self.buckets for own in bucket.slices)

    def _cut(self, whole):
        """This rank's slices of whole states, in memory of their own."""
        states = defaultdict(dict)
        for key, state in whole.items():
            if not isinstance(key, mindspore.Tensor):
                states[key] = state
            elif own := self._slice_of.get(id(key)):
                states[own.tensor] = _cut(state, own)
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
        whole = self._later() if self.are_later else self.gather()
        return {**state_dict, "state": {places.get(id(key), key): state for key, state in whole.items()}}


def _gathered(later):
    return {name: value.gather() if type(value) is LazyTensor else value for name, value in later.items()}


def _cut(state, own):
    """A slice's part of the state of the whole, in memory of its own."""
    return {
        name: mindspore.Tensor.from_numpy(_run_of(value, own)) if _is_like(value, own.parameter) else value
        for name, value in state.items()
    }


def _run_of(value, own):
    return value.run(own.begin, own.end) if type(value) is StoredTensor else own.of(value).asnumpy().copy()


def _described(state, tensor):
    """The state of a slice, without the tensors that are cut as it is."""
    return {
        name: Cut(value.asnumpy().dtype.name) if _is_like(value, tensor) else value for name, value in state.items()
    }


def _is_like(value, tensor):
    return isinstance(value, mindspore.Tensor) and value.shape == tensor.shape
