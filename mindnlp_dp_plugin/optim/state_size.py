"""How many bytes an optimizer's states will take, known before its first step."""

import mindspore

from mindnlp_dp_plugin.optim.elementwise import like
from mindnlp_dp_plugin.optim.watched import trusted

SHAPE = (64, 64)


def bytes_of_states(optimizer) -> int:
    """A small matrix is stepped to find out what the optimizer keeps of its size; for each parameter, as much.

    Args:
        optimizer: Its parameters and states are left alone.
    """
    total = 0
    for group in optimizer.param_groups:
        for dtype in {parameter.dtype for parameter in group["params"]}:
            alike = sum(parameter.size for parameter in group["params"] if parameter.dtype == dtype)
            total += alike * _bytes_of_element(optimizer, group, dtype)
    return total


def _bytes_of_element(optimizer, group, dtype):
    """Of states that have the parameter's shape; others do not grow with it."""
    from mindnlp.core import nn  # MindNLP 0.5 has none, and no zero_stage

    parameter = nn.Parameter(mindspore.ops.zeros(SHAPE, dtype))
    parameter.grad = mindspore.ops.ones(SHAPE, dtype)
    trial = like(optimizer, group, [parameter])
    with trusted():
        trial.step()
    states = (value for value in trial.state[parameter].values() if isinstance(value, mindspore.Tensor))
    return sum(state.itemsize for state in states if state.shape == parameter.shape)
