"""The parameters that an optimizer steps, and their names."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import mindspore


def stepped_parameters(optimizer) -> list:
    """All parameters of an optimizer, in its order."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def named_parameters(model, optimizer) -> dict[str, Any]:
    """The parameters ``optimizer`` steps, by name: those of ``model`` in its order, then those outside it.

    Args:
        model: A ``mindnlp.core.nn.Module``.
        optimizer: An optimizer with ``param_groups``.
    """
    stepped = {id(parameter) for parameter in stepped_parameters(optimizer)}
    named = {name: parameter for name, parameter in model.named_parameters() if id(parameter) in stepped}
    return named | parameters_outside(model, optimizer)


def parameters_outside(model, optimizer) -> dict[str, Any]:
    """Parameters that ``optimizer`` steps and ``model`` lacks, such as weights of losses, named by their place."""
    inside = {id(parameter) for parameter in model.parameters()}
    return {
        f"optimizer.param_groups[{number}]['params'][{index}]": parameter
        for number, group in enumerate(optimizer.param_groups)
        for index, parameter in enumerate(group["params"])
        if id(parameter) not in inside
    }


def taken_from(parameters: Iterable) -> list[tuple]:
    """What is attached to parameters, which are then without: (parameter, gradient) of each."""
    found = [(parameter, parameter.grad) for parameter in parameters]
    for parameter, _ in found:
        parameter.grad = None
    return found


@contextmanager
def set_aside(parameters: Iterable[mindspore.Parameter]) -> Iterator[None]:
    """A context behind which what is attached is as it was: gradients of the block are returned, not attached."""
    found = taken_from(parameters)
    try:
        yield
    finally:
        for parameter, gradient in found:
            parameter.grad = gradient
