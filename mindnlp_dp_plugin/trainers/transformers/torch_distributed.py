"""``torch.distributed`` for accelerate and for scripts: fourteen functions, answered by the plugin's ``Collective``.

MindNLP 0.5.1's own fail on every device: on a CPU its process groups have no device, on Ascend it has a barrier only.
"""

import functools
import os
from types import ModuleType
from typing import Any

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.distributed.gather import gather_arrays, to_numpy
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import Message
from mindnlp_dp_plugin.patching import Patches

PURPOSE = Message("torch.distributed")
REDUCED = {"sum": np.sum, "1": np.mean, "avg": np.mean, "min": np.min, "max": np.max, "prod": np.prod}
ANSWERED = (
    *("init_process_group", "destroy_process_group", "is_initialized", "get_rank", "get_world_size", "get_backend"),
    *("barrier", "all_reduce", "broadcast", "all_gather", "all_gather_into_tensor"),
    *("all_gather_object", "gather_object", "broadcast_object_list"),
)


def tell_accelerate(group: Collective) -> None:
    """Set torchrun's variables, from which accelerate learns its place."""
    os.environ |= {
        "RANK": str(group.rank),
        "WORLD_SIZE": str(group.world_size),
        "LOCAL_RANK": str(group.local_rank),
        "LOCAL_WORLD_SIZE": str(group.local_world_size or group.world_size),
    }
    if mindspore.get_context("device_target") == "CPU":
        os.environ["ACCELERATE_USE_CPU"] = "true"  # accelerate 1.12 and later take ranks on a CPU for none otherwise
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")  # asked for, and never connected to
    os.environ.setdefault("MASTER_PORT", "29500")


class Done:
    """A collective that was complete when it was returned."""

    def wait(self, *arguments: Any) -> bool:
        """It is."""
        return True

    is_completed = is_success = wait


class TorchDistributed:
    """The functions of ``torch.distributed``, with its names and arguments, for the group of all ranks.

    All ranks must call each, in the same order.

    Args:
        group: The ranks.
    """

    def __init__(self, group: Collective):
        self._group = group
        self._backend = None

    def answer(self, distributed: ModuleType, patches: Patches) -> None:
        """Stand in for the module's functions.

        Args:
            distributed: ``mindtorch.distributed``.
            patches: Restores them.
        """
        for owner in (distributed, distributed.distributed_c10d):
            for name in ANSWERED:
                patches.replace(owner, name, getattr(self, name))
            patches.replace(owner, "new_group", refuse_groups)

    def init_process_group(self, backend=None, *args, **kwargs):
        self._backend = str(backend or "gloo")

    def destroy_process_group(self, group=None):
        self._backend = None

    def is_initialized(self):
        return self._backend is not None

    def get_backend(self, group=None):
        return self._backend

    def get_rank(self, group=None):
        return self._group.rank

    def get_world_size(self, group=None):
        return self._group.world_size

    def barrier(self, group=None, async_op=False, device_ids=None):
        self._group.barrier()
        return done(async_op)

    def all_reduce(self, tensor, op="sum", group=None, async_op=False):
        kind = str(getattr(op, "op", op)).lower()
        if kind not in REDUCED:
            raise DataParallelError(
                "torch.distributed.all_reduce(op={op!r}) is not supported: use SUM, AVG, MIN, MAX or PRODUCT.", op=kind
            )
        write(tensor, REDUCED[kind](self._gathered(tensor), axis=0))
        return done(async_op)

    def broadcast(self, tensor, src=0, group=None, async_op=False, group_src=None):
        self._group.broadcast(tensor, src or group_src or 0)
        return done(async_op)

    def all_gather(self, tensor_list, tensor, group=None, async_op=False):
        """Ranks may have different numbers of rows, as in a pass's last batch: then the list gets other tensors."""
        shapes = self._group.all_gather_object(tuple(tensor.shape), PURPOSE)
        if len(set(shapes)) == 1:
            for place, values in zip(tensor_list, self._gathered(tensor)):
                write(place, values)
        else:
            of_ranks = self._group.all_gather_object(to_numpy(tensor), PURPOSE)
            tensor_list[:] = [mindspore.Tensor(values, dtype=tensor.dtype) for values in of_ranks]
        return done(async_op)

    def all_gather_into_tensor(self, output_tensor, input_tensor, group=None, async_op=False):
        write(output_tensor, self._gathered(input_tensor))
        return done(async_op)

    def all_gather_object(self, object_list, obj, group=None):
        object_list[:] = self._group.all_gather_object(obj, PURPOSE)

    def gather_object(self, obj, object_gather_list=None, dst=0, group=None, group_dst=None):
        everyone = self._group.all_gather_object(obj, PURPOSE)
        if object_gather_list is not None and self._group.rank == (dst or group_dst or 0):
            object_gather_list[:] = everyone

    def broadcast_object_list(self, object_list, src=0, group=None, device=None, group_src=None):
        object_list[:] = self._group.all_gather_object(list(object_list), PURPOSE)[src or group_src or 0]

    def _gathered(self, tensor) -> np.ndarray:
        """The values of all ranks, by rank."""
        return np.stack(gather_arrays(to_numpy(tensor), self._group, PURPOSE))


@functools.cache
def answers_of(group: Collective) -> TorchDistributed:
    """One for a process, however often the plugin is installed: accelerate initialises it once."""
    return TorchDistributed(group)


def refuse_groups(*args, **kwargs):
    """In place of ``new_group``.

    Raises:
        DataParallelError: Always.
    """
    raise DataParallelError("torch.distributed.new_group: only the group of all ranks exists. Leave group= out.")


def done(async_op: bool) -> Done | None:
    """What an asynchronous function returns."""
    return Done() if async_op else None


def write(tensor, values: np.ndarray) -> None:
    """Put values into a tensor, in its dtype."""
    values = np.ascontiguousarray(values).reshape(tuple(tensor.shape))
    tensor.assign_value(mindspore.Tensor(values, dtype=tensor.dtype))
