"""Refuse optimizers that look at a tensor as a whole, before training: their state cannot be cut into slices."""

from collections import defaultdict
from itertools import pairwise

import mindspore
import numpy as np

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.optim.watched import trusted

SHAPE, BORDERS = (6, 8), (0, 20, 48)
NUM_STEPS = 3
RATE = 1e-2
TOLERANCE = 1e-5  # of a parameter: a norm over the slice instead of the tensor changes the step by percents


def require_elementwise(optimizer) -> None:
    """Raise unless the optimizer steps a slice of a parameter as it steps the same numbers within the whole parameter.

    It is tried: a small matrix is stepped whole and in slices, with the options of each parameter group.

    Args:
        optimizer: Its parameters and states are left alone.

    Raises:
        DataParallelError: If the results differ, or if it cannot step a slice at all.
    """
    optimizer_class = type(optimizer).__name__
    for group in optimizer.param_groups:
        try:
            whole = _stepped(optimizer, group, [np.s_[:]])
            slices = _stepped(optimizer, group, [np.s_[begin:end] for begin, end in pairwise(BORDERS)])
        except Exception as error:
            raise DataParallelError(
                "zero_stage cannot shard the states of {optimizer}: it could not step a slice of a tensor ({error}). "
                "Use an optimizer that steps each element by itself, such as AdamW, Adam or SGD, or leave zero_stage "
                "out.",
                optimizer=optimizer_class,
                error=error,
            ) from error
        if not np.allclose(whole, slices, rtol=0, atol=TOLERANCE):
            raise DataParallelError(
                "zero_stage cannot shard the states of {optimizer}: its step depends on the tensor as a whole (a "
                "norm, or rows and columns), so ranks cannot step slices. Use an optimizer that steps each element "
                "by itself, such as AdamW, Adam or SGD, or leave zero_stage out.",
                optimizer=optimizer_class,
            )


def _stepped(optimizer, group, slices):
    """A matrix after some steps of an optimizer of the same kind, which holds it whole or in slices."""
    chance = np.random.default_rng(0)
    values, *gradients = chance.standard_normal((1 + NUM_STEPS, *SHAPE)).astype(np.float32)
    is_whole = len(slices) == 1

    def tensors(array):
        return [mindspore.Tensor(array if is_whole else array.reshape(-1)[part].copy()) for part in slices]

    from mindnlp.core import nn  # MindNLP 0.5 has none, and no zero_stage

    parameters = [nn.Parameter(tensor) for tensor in tensors(values)]
    trial = like(optimizer, group, parameters)
    for gradient in gradients:
        for parameter, tensor in zip(parameters, tensors(gradient)):
            parameter.grad = tensor
        with trusted():
            trial.step()
    return np.concatenate([parameter.asnumpy().reshape(-1) for parameter in parameters])


def like(optimizer, group: dict, parameters: list):
    """An optimizer of the same kind, without states.

    Args:
        optimizer: It is left alone.
        group: One of its parameter groups, whose options count.
        parameters: What the new one steps.
    """
    # Not through the constructor, whose arguments a subclass may have changed; and a copy would hold all states twice.
    trial = object.__new__(type(optimizer))
    vars(trial).update({name: value for name, value in vars(optimizer).items() if name != "step"})
    trial.param_groups = [{**group, "lr": RATE, "params": parameters}]
    trial.state = defaultdict(dict)
    return trial
