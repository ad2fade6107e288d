"""Make the ranks' copies of a model equal before training, and check them on request."""

import logging
from collections.abc import Callable, Iterable
from typing import Any

import mindspore
import numpy as np
import xxhash

from mindnlp_dp_plugin.collectives import Collective, current
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message, tr

logger = logging.getLogger(__name__)
DIGESTS = Message("digests of parameters")

DIFFERENT_MODELS, SAME_MODEL = Message("Ranks hold different models"), Message("Build the same model on every rank.")
NUM_NAMED = 4
Named = Iterable[tuple[str, Any]]


def make_replicas(
    model, collective: Collective, others: Named = (), are_left_out: Callable[[Any], bool] = lambda tensor: False
) -> None:
    """Broadcast the parameters and persistent buffers of rank 0. All ranks must call it.

    Args:
        model: A ``mindnlp.core.nn.Module``, of the same structure on all ranks.
        collective: The ranks that hold copies.
        others: Names and tensors that are trained in addition to the model.
        are_left_out: Which tensors are the same already.

    Raises:
        DataParallelError: If names, shapes or dtypes differ between ranks; the message names the first difference.
    """
    make_equal([each for each in (*_state(model), *others) if not are_left_out(each[1])], collective)


def make_equal(tensors: Named, collective: Collective) -> None:
    """Broadcast the values of rank 0. All ranks must call it.

    Args:
        tensors: Names and tensors, in the same order on all ranks.
        collective: The ranks that hold copies.

    Raises:
        DataParallelError: If names, shapes or dtypes differ between ranks; the message names the first difference. Or
            if a tensor was never initialised.
    """
    tensors = list(tensors)
    require_values(tensors)
    require_same_structure(tensors, collective, DIFFERENT_MODELS, SAME_MODEL)
    _give_memory_of_their_own([tensor for _, tensor in tensors])
    for _, tensor in tensors:
        collective.broadcast(tensor, src=0)


def require_values(tensors: Named) -> None:
    """Raise if a tensor was declared and never given numbers: reading it would crash, or give zeros.

    Args:
        tensors: Names and tensors.

    Raises:
        DataParallelError: Naming them.
    """
    if not _is_in_memory(mindspore.Tensor(np.ones(1, np.float32))):
        return  # on this device the address tells nothing
    empty = [name for name, tensor in tensors if 0 not in tensor.shape and not _is_in_memory(tensor)]
    if empty:
        names, num_more = ", ".join(empty[:NUM_NAMED]), len(empty) - NUM_NAMED
        raise DataParallelError(
            "Never initialised: {names}. They were made by mindspore.common.initializer.initializer(...), which "
            "draws nothing before init_data(): call it before you use the tensor.",
            names=tr("{names} and {num} more", names=names, num=num_more) if num_more > 0 else names,
        )


def check_buffers(model, collective: Collective) -> None:
    """Look at the buffers before ``make_replicas``. All ranks must call it.

    Those that no state_dict holds stay as each rank made them, so they must be the same. Of the others rank 0's are
    taken, as of the parameters; where they differ, that is logged.

    Args:
        model: A ``mindnlp.core.nn.Module``, of the same structure on all ranks.
        collective: The ranks that are to train it.

    Raises:
        DataParallelError: Naming the first of the former that differs from rank 0's.
    """
    persistent = _persistent_buffers(model)
    others = [(name, buffer) for name, buffer in model.named_buffers() if name not in persistent]
    require_same_structure([*persistent.items(), *others], collective, DIFFERENT_MODELS, SAME_MODEL)
    require_values([*persistent.items(), *others])
    if others:
        _compare(others, collective, Message("Buffers differ before training"))
    if persistent and (found := _first_difference(list(persistent.items()), collective)) and collective.rank == 0:
        name, ranks = found
        logger.warning(
            tr(
                "Buffer {name} on rank(s) {ranks} is not what rank 0 holds: all ranks now use rank 0's.",
                name=name,
                ranks=ranks,
            )
        )


class SharedBuffers:
    """Persistent buffers, such as running statistics, which each rank's rows change: rank 0's are broadcast.

    torch's DistributedDataParallel does the same before each forward (``broadcast_buffers``).

    Args:
        model: A ``mindnlp.core.nn.Module``, of the same structure on all ranks.
        collective: The ranks that hold copies.
        may_change: Whether they may; what rows change depends on the number of ranks.
    """

    def __init__(self, model, collective: Collective, may_change: bool = True):
        self._model = model
        self._collective = collective
        persistent = _persistent_buffers(model)
        self._names = list(persistent)
        self._digests = None if may_change else {name: digest(buffer) for name, buffer in persistent.items()}

    def broadcast(self) -> None:
        """Broadcast the buffers of rank 0. All ranks must call it; free for a model without buffers.

        Raises:
            DataParallelError: If one has changed that may not.
        """
        if self._names and self._digests:
            buffers = dict(self._model.named_buffers())
            if changed := [name for name in self._names if digest(buffers[name]) != self._digests[name]]:
                raise DataParallelError(
                    "elastic_determinism: training changes the buffer {name}, as it changes running statistics, and "
                    "its values would depend on the number of ranks. Freeze the layer (eval()), or train without "
                    "elastic_determinism.",
                    name=changed[0],
                )
        elif self._names:
            buffers = dict(self._model.named_buffers())  # a forward may replace them
            for name in self._names:
                self._collective.broadcast(buffers[name], src=0)


def check_replicas(model: Any, collective: Collective | None = None) -> None:
    """Raise unless all ranks hold the same parameters and buffers, to the last bit. All ranks must call it.

    Args:
        model: A ``mindnlp.core.nn.Module``.
        collective: The ranks to compare; None for those of this job.

    Raises:
        DataParallelError: If they differ; the message names the first tensor that does, and the ranks.

    Examples:
        >>> dp.check_replicas(model)
    """
    _compare(_state(model), collective or current(), Message("Replicas differ"))


def check_parameters(parameters: Named, collective: Collective, step: int) -> None:
    """``check_replicas`` during training, without the buffers, in which each rank keeps statistics of its own rows.

    All ranks must call it. Ranks compare one digest of all parameters and, only if it differs, one for each.

    Args:
        parameters: Names and tensors.
        collective: The ranks to compare.
        step: The last optimizer step, for the message.

    Raises:
        DataParallelError: If they differ; the message names the first parameter that does, and the ranks.
    """
    _compare(list(parameters), collective, tr("Replicas differ after step {step}", step=step))


def require_same_structure(tensors: Named, collective: Collective, verdict: str, hint: str) -> None:
    """Raise unless names, shapes, dtypes and their order are the same on all ranks. All ranks must call it.

    Args:
        tensors: Names and tensors.
        collective: The ranks to compare.
        verdict: The beginning of the message.
        hint: The end of the message.

    Raises:
        DataParallelError: If they differ; the message names the first tensor that does.
    """
    mine = [(name, tuple(tensor.shape), str(tensor.dtype)) for name, tensor in tensors]
    everyone = collective.all_gather_object(mine, Message("shapes of parameters"))
    for rank, theirs in enumerate(everyone):
        if theirs == everyone[0]:
            continue
        ours = dict((name, rest) for name, *rest in everyone[0])
        others = dict((name, rest) for name, *rest in theirs)
        for name in sorted(ours.keys() | others.keys(), key=list(ours | others).index):
            if ours.get(name) != others.get(name):
                raise DataParallelError(
                    "{verdict}: {name} is {ours} on rank 0, but {theirs} on rank {rank}. {hint}",
                    verdict=verdict,
                    name=name,
                    ours=_describe(ours.get(name)),
                    theirs=_describe(others.get(name)),
                    rank=rank,
                    hint=hint,
                )
        raise DataParallelError(
            "{verdict}: rank {rank} lists its parameters in another order. {hint}",
            verdict=verdict,
            rank=rank,
            hint=hint,
        )


def _compare(state, collective, verdict):
    if found := _first_difference(state, collective):
        name, ranks = found
        raise DataParallelError(
            "{verdict}: {name} on rank(s) {ranks} is not what rank 0 holds. Something changed it on some ranks only: "
            "look for code that depends on the rank, or on unseeded randomness.",
            verdict=verdict,
            name=name,
            ranks=ranks,
        )


def _first_difference(state, collective):
    """The name of the first tensor that is not the same on all ranks, and on which it is not rank 0's."""
    digests = [digest(tensor) for _, tensor in state]
    if len(set(collective.all_gather_object(xxhash.xxh3_64_intdigest(np.array(digests, np.uint64)), DIGESTS))) == 1:
        return None
    everyone = collective.all_gather_object(digests, DIGESTS)
    for (name, _), of_ranks in zip(state, zip(*everyone)):
        odd = [rank for rank, digest in enumerate(of_ranks) if digest != of_ranks[0]]
        if odd:
            return name, ", ".join(map(str, odd))
    return None


def digest(tensor) -> int:
    """A 64-bit digest of a tensor's bytes, which are not copied on CPU."""
    return xxhash.xxh3_64_intdigest(np.ascontiguousarray(tensor.asnumpy()).view(np.uint8))


def _give_memory_of_their_own(tensors):
    """Copy views, which cannot be assigned to, and tensors that share memory, of which only the last would count."""
    taken = set()
    for tensor in tensors:
        if not _is_whole(tensor) or tensor._data_ptr() in taken:
            tensor.assign_value(tensor.contiguous().copy())  # MindSpore 2.7 lays a copy out as what it copies
        taken.add(tensor._data_ptr())


def _is_in_memory(tensor):
    return tensor._data_ptr() != 0


def _is_whole(tensor):
    try:
        return tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    except RuntimeError:  # MindSpore 2.7 cannot tell which are
        return False


def _state(model):
    """Parameters and persistent buffers by name, each tensor once."""
    return [*model.named_parameters(), *_persistent_buffers(model).items()]


def _persistent_buffers(model):
    persistent = type(model).state_dict(model).keys()  # names alone: parameters may be shared out
    return {name: buffer for name, buffer in model.named_buffers() if name in persistent}


def _describe(shape_and_dtype):
    return tr("absent") if shape_and_dtype is None else f"{shape_and_dtype[0]} {shape_and_dtype[1]}"
