"""Clipping by the norm of all gradients: MindNLP makes ten passes over them, and fails for one of 0, 3 or more axes."""

import math
from collections import defaultdict

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import array_of, tensor_of
from mindnlp_dp_plugin.ddp.host_memory import sums_of_squares


def clip_grad_norm_(stock, parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """By the rule of torch's ``clip_grad_norm_``; gradients are written to in place. Returns the norm before."""
    parameters = [parameters] if isinstance(parameters, mindspore.Tensor) else list(parameters)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    are_float32 = all(gradient.dtype == mindspore.float32 for gradient in gradients)
    if not (gradients and are_float32) or norm_type != 2 or error_if_nonfinite:
        return stock(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
    with np.errstate(all="ignore"):
        squares = (square for gradient in gradients for square in sums_of_squares(array_of(gradient)))
        norm = np.float32(math.fsum(squares) ** 0.5)
        factor = np.fmin(np.float32(max_norm) / (norm + np.float32(1e-6)), np.float32(1))
        if factor != 1:
            _scale(gradients, factor)
    return mindspore.Tensor(norm)


def _scale(gradients, factor):
    # MindSpore may give several parameters the same memory, such as the terms of a sum: what is assigned to one of
    # them, the others get, too. Of what it has not computed it may know no address.
    of_memory = defaultdict(list)
    for gradient in gradients:
        of_memory[gradient.data_ptr() or id(gradient)].append(gradient)
    for sharers in of_memory.values():
        scaled = [tensor_of(np.asarray(array_of(gradient) * factor)) for gradient in sharers]
        for gradient, values in zip(sharers, scaled):
            gradient.assign_value(values)
