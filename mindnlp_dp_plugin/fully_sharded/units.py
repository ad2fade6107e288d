"""Which modules of a model compute with whole parameters, one after the other."""

from mindnlp_dp_plugin.recompute import layers_of


def units_of(model) -> list:
    """The layers of a model, and outside them each module with parameters that has no module with parameters inside.

    Args:
        model: A ``mindnlp.core.nn.Module``.
    """
    layers = list({id(layer): layer for layer in layers_of(model)}.values())
    inside = {id(module) for layer in layers for module in layer.modules()}
    return layers + [module for module in model.modules() if id(module) not in inside and _is_leaf(module)]


def units_of_parameters(model, units: list) -> dict[int, tuple[int, ...]]:
    """The numbers of the units that compute with each parameter, by its identity.

    Parameters that a module outside of all units holds itself are left out: its code may read them at any time.
    """
    inside, outside = {}, set()
    of_unit = {id(module): number for number, unit in enumerate(units) for module in unit.modules()}
    for module in model.modules():
        for parameter in filter(lambda held: held is not None, module._parameters.values()):
            if id(module) in of_unit:
                inside.setdefault(id(parameter), set()).add(of_unit[id(module)])
            else:
                outside.add(id(parameter))
    return {identity: tuple(sorted(numbers)) for identity, numbers in inside.items() if identity not in outside}


def _is_leaf(module):
    children_have = any(True for child in module.children() for _ in child.parameters())
    return any(held is not None for held in module._parameters.values()) and not children_have
