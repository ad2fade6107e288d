"""The parameters that an optimizer steps, and their names."""

from typing import Any


def stepped_parameters(optimizer) -> list:
    """All of them, in the optimizer's own order."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def named_parameters(model, optimizer) -> dict[str, Any]:
    """What ``optimizer`` steps, by name: first the parameters of ``model`` in its order, then those outside of it.

    Args:
        model: A ``mindnlp.core.nn.Module``.
        optimizer: It has ``param_groups``.
    """
    stepped = {id(parameter) for parameter in stepped_parameters(optimizer)}
    named = {name: parameter for name, parameter in model.named_parameters() if id(parameter) in stepped}
    return named | parameters_outside(model, optimizer)


def parameters_outside(model, optimizer) -> dict[str, Any]:
    """What ``optimizer`` steps and ``model`` does not hold, such as weights of losses, named by their place."""
    inside = {id(parameter) for parameter in model.parameters()}
    return {
        f"optimizer.param_groups[{number}]['params'][{index}]": parameter
        for number, group in enumerate(optimizer.param_groups)
        for index, parameter in enumerate(group["params"])
        if id(parameter) not in inside
    }
