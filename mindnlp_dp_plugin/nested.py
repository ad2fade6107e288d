"""Visit what tuples, lists and dictionaries hold, however deep."""

import copy
from collections.abc import Callable, Mapping


def map_leaves(function: Callable, value):
    """Apply ``function`` to each leaf; tuples, lists and dictionaries stay as they are.

    Args:
        function: Is called with whatever is no tuple, list or dictionary.
        value: Named tuples and dictionaries of classes of their own, as a model's output, keep their class.
    """
    if isinstance(value, Mapping):
        mapped = copy.copy(value)
        for key, inner in value.items():
            mapped[key] = map_leaves(function, inner)
        return mapped
    if isinstance(value, (tuple, list)):
        mapped = [map_leaves(function, inner) for inner in value]
        return type(value)(*mapped) if hasattr(value, "_fields") else type(value)(mapped)
    return function(value)
