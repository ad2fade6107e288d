"""A model's weights in another precision for a while: float32 masters to train, float16 to evaluate."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mindspore

HALVES = (mindspore.float16, mindspore.bfloat16)


class Masters:
    """Float32 in the place of weights that were loaded in half precision, while they are trained.

    Steps are too small for half precision: added to a weight, they are rounded off. Frozen weights stay as they are.
    """

    def __init__(self):
        self._loaded_as = []

    def make(self, model) -> None:
        """Turn what trains of a model into float32, in place: optimizers and tied layers keep their parameters."""
        for parameter in model.parameters():
            if parameter.requires_grad and parameter.dtype in HALVES:
                self._loaded_as.append((parameter, parameter.dtype))
                parameter.assign_value(parameter.astype(mindspore.float32))

    @property
    def are_made(self) -> bool:
        """Whether there are any."""
        return bool(self._loaded_as)

    def undo(self, are_left_out: Callable[[Any], bool]) -> None:
        """Round the trained weights to what they were loaded as.

        Args:
            are_left_out: Of which this process does not have the whole.
        """
        for parameter, dtype in self._loaded_as:
            if not are_left_out(parameter):
                parameter.assign_value(parameter.astype(dtype))
        self._loaded_as.clear()


@contextmanager
def weights_in(dtype: mindspore.Type | None, model) -> Iterator[None]:
    """A context in which a model's weights and buffers are rounded to ``dtype``; None leaves them as they are.

    MindNLP's ``model.to`` makes new parameters: with those the model would no longer be what its optimizer steps.
    """
    if dtype is None:
        yield
        return
    found = [(module, dict(module._parameters), dict(module._buffers)) for module in model.modules()]
    try:
        model.to(dtype=dtype)
        yield
    finally:
        for module, parameters, buffers in found:
            module._parameters.update(parameters)
            module._buffers.update(buffers)
