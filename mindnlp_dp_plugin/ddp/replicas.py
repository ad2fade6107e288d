"""Replicas are copies: made equal before training, and checked on request."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import xxhash

from mindnlp_dp_plugin.collectives import Collective, current
from mindnlp_dp_plugin.errors import DataParallelError

Named = Iterable[tuple[str, Any]]


def make_replicas(model, collective: Collective, others: Named = ()) -> None:
    """Give every rank the parameters and persistent buffers of rank 0. To be called on all ranks.

    Args:
        model: A ``mindnlp.core.nn.Module``, of the same structure on all ranks.
        collective: The ranks that are to hold copies.
        others: Names and tensors that are trained beside the model.

    Raises:
        DataParallelError: If names, shapes or dtypes differ between ranks; the first one that does is named.
    """
    make_equal([*_state(model), *others], collective)


def make_equal(tensors: Named, collective: Collective) -> None:
    """Give every rank the values of rank 0. To be called on all ranks.

    Args:
        tensors: Names and tensors, in the same order on all ranks.
        collective: The ranks that are to hold copies.

    Raises:
        DataParallelError: If names, shapes or dtypes differ between ranks; the first one that does is named.
    """
    tensors = list(tensors)
    require_same_structure(tensors, collective, "Ranks hold different models", "Build the same model on every rank.")
    _give_memory_of_their_own([tensor for _, tensor in tensors])
    for _, tensor in tensors:
        collective.broadcast(tensor, src=0)


class SharedBuffers:
    """Persistent buffers, such as running statistics, that every rank's own rows change: rank 0's are everybody's.

    torch's DistributedDataParallel does so, too, before each forward (``broadcast_buffers``).

    Args:
        model: A ``mindnlp.core.nn.Module``, of the same structure on all ranks.
        collective: The ranks that hold copies.
    """

    def __init__(self, model, collective: Collective):
        self._model = model
        self._collective = collective
        self._names = list(_persistent_buffers(model))

    def share(self) -> None:
        """Give every rank the buffers of rank 0. To be called on all ranks; free for a model without any."""
        if self._names:
            buffers = dict(self._model.named_buffers())  # a forward may put others in the place of these
            for name in self._names:
                self._collective.broadcast(buffers[name], src=0)


def check_replicas(model: Any, collective: Collective | None = None) -> None:
    """Raise unless all ranks hold the same parameters and buffers, to the last bit. To be called on all ranks.

    Args:
        model: A ``mindnlp.core.nn.Module``.
        collective: The ranks to compare; those of this job if None.

    Raises:
        DataParallelError: Naming the first tensor that differs from rank 0's, and the ranks on which it does.
    """
    _compare(_state(model), collective or current(), "Replicas differ")


def check_parameters(model, collective: Collective, step: int, others: Named = ()) -> None:
    """``check_replicas`` in the middle of training, without the buffers: each rank keeps statistics of its own rows.

    To be called on all ranks. One digest for all parameters is compared; only if it differs, one for each.

    Args:
        model: A ``mindnlp.core.nn.Module``.
        collective: The ranks to compare.
        step: The optimizer step that was just made, for the message.
        others: Names and tensors that are trained beside the model.

    Raises:
        DataParallelError: Naming the first parameter that differs from rank 0's, and the ranks on which it does.
    """
    _compare([*model.named_parameters(), *others], collective, f"Replicas differ after step {step}")


def require_same_structure(tensors: Named, collective: Collective, verdict: str, hint: str) -> None:
    """Raise unless names, shapes, dtypes and their order are the same on all ranks. To be called on all ranks.

    Args:
        tensors: Names and tensors.
        collective: The ranks to compare.
        verdict: What the message begins with.
        hint: What the message ends with.

    Raises:
        DataParallelError: Naming the first tensor that differs.
    """
    mine = [(name, tuple(tensor.shape), str(tensor.dtype)) for name, tensor in tensors]
    everyone = collective.all_gather_object(mine)
    for rank, theirs in enumerate(everyone):
        if theirs == everyone[0]:
            continue
        ours = dict((name, rest) for name, *rest in everyone[0])
        others = dict((name, rest) for name, *rest in theirs)
        for name in sorted(ours.keys() | others.keys(), key=list(ours | others).index):
            if ours.get(name) != others.get(name):
                raise DataParallelError(
                    f"{verdict}: {name} is {_describe(ours.get(name))} on rank 0, but "
                    f"{_describe(others.get(name))} on rank {rank}. {hint}"
                )
        raise DataParallelError(f"{verdict}: rank {rank} lists its parameters in another order. {hint}")


def _compare(state, collective, verdict):
    digests = [digest(tensor) for _, tensor in state]
    if len(set(collective.all_gather_object(xxhash.xxh3_64_intdigest(np.array(digests, np.uint64))))) == 1:
        return
    everyone = collective.all_gather_object(digests)
    for (name, _), of_ranks in zip(state, zip(*everyone)):
        odd = [rank for rank, digest in enumerate(of_ranks) if digest != of_ranks[0]]
        if odd:
            raise DataParallelError(
                f"{verdict}: {name} on rank(s) {', '.join(map(str, odd))} is not what rank 0 holds. Something "
                "changed it on some ranks only: look for code that depends on the rank, or on unseeded randomness."
            )


def digest(tensor) -> int:
    """64 bits of its bytes, which on CPU are not copied."""
    return xxhash.xxh3_64_intdigest(np.ascontiguousarray(tensor.asnumpy()).view(np.uint8))


def _give_memory_of_their_own(tensors):
    """A view cannot be assigned to, and of two tensors in one memory the last to be assigned would win."""
    taken = set()
    for tensor in tensors:
        if not _is_whole(tensor) or tensor._data_ptr() in taken:
            tensor.assign_value(tensor.copy())
        taken.add(tensor._data_ptr())


def _is_whole(tensor):
    try:
        return tensor.is_contiguous() and tensor.untyped_storage().nbytes() == tensor.nbytes
    except RuntimeError:  # MindSpore 2.7 cannot tell
        return False


def _state(model):
    """Parameters and persistent buffers by name, each tensor once."""
    return [*model.named_parameters(), *_persistent_buffers(model).items()]


def _persistent_buffers(model):
    persistent = model.state_dict().keys()
    return {name: buffer for name, buffer in model.named_buffers() if name in persistent}


def _describe(shape_and_dtype):
    return "absent" if shape_and_dtype is None else f"{shape_and_dtype[0]} {shape_and_dtype[1]}"
