"""Put answers in the place of MindSpore's collectives on a CPU: its own are not there, or not all of them."""

import functools
import inspect
from collections.abc import Callable
from types import ModuleType

import mindspore

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.patching import Patches
from mindnlp_dp_plugin.trainers.guard import Summed
from mindnlp_dp_plugin.trainers.mindspore.comm_func import CommFunc
from mindnlp_dp_plugin.trainers.mindspore.mint import Mint

WORLDS = (None, "hccl_world_group", "nccl_world_group", "mccl_world_group")
NOT_COLLECTIVES = ("TCPStore", "P2POp", "is_available")  # these stay as they are
KINDS = {"mindspore.communication.comm_func": CommFunc, "mindspore.mint.distributed": Mint}
SUMS = ("all_reduce", "reduce_scatter_tensor", "reduce_scatter", "all_gather", "all_gather_into_tensor")


def count_sums(module: ModuleType, summed: Summed, patches: Patches) -> None:
    """Leave a module's functions as they are, but note what they sum.

    Args:
        module: One of ``KINDS``.
        summed: Notes it.
        patches: Restores the module.
    """

    def counted(stock, *args, **kwargs):
        values = [*args, *kwargs.values()]
        summed.count(*(value for value in values if isinstance(value, mindspore.Tensor)))
        return stock(*args, **kwargs)

    for name in SUMS:
        if hasattr(module, name):
            patches.stand_in(module, counted, name)


def answer(module: ModuleType, answers: CommFunc | Mint, patches: Patches) -> None:
    """Put answers in the place of a module's functions; those without an answer are refused by name.

    Args:
        module: One of ``KINDS``.
        answers: Has a method for each function that is answered.
        patches: Restores the module.
    """
    for name in sorted(set(module.__all__) - set(NOT_COLLECTIVES)):
        full_name = f"{module.__name__}.{name}"
        for_all = getattr(answers, name, None) or _refusal(full_name)
        in_groups = getattr(module, name) if name in answers.works_in_groups else _refusal_of_groups(full_name)
        patches.replace(module, name, _for_the_group(for_all, in_groups))


def _for_the_group(for_all, in_groups) -> Callable:
    """Call one function for all ranks, and another for some of them."""
    signature = inspect.signature(for_all)

    @functools.wraps(for_all)
    def function(*args, **kwargs):
        asked = signature.bind(*args, **kwargs).arguments
        is_for_all = asked.get("group") in WORLDS and asked.get("ranks") is None
        return (for_all if is_for_all else in_groups)(*args, **kwargs)

    return function


def _refusal(name) -> Callable:
    def function(*args, **kwargs):
        raise DataParallelError(
            "{function} does not exist on a CPU: use all_reduce, all_gather, broadcast or dp.all_gather_object.",
            function=name,
        )

    return function


def _refusal_of_groups(name) -> Callable:
    def function(*args, **kwargs):
        raise DataParallelError(
            "{function}: only the group of all ranks exists here. Leave the group out; over --backend mccl, "
            "mindspore.mint.distributed has groups.",
            function=name,
        )

    return function
