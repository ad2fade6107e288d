"""Adam's step: in MindSpore's, a number's last bit depends on where it stands and on how many threads share the work.

There the ends of each thread's share are computed by other instructions than the rest. Ranks with different numbers of
cores, or with different slices of a parameter, would then step the same number differently.
"""

import functools

import mindspore
import numpy as np

from mindnlp_dp_plugin.cpu_operators.arrays import are_float32, shares_memory
from mindnlp_dp_plugin.cpu_operators.compiled import ONE, compiled
from mindnlp_dp_plugin.cpu_operators.threads import over_rows


def adamw_step(stock, optimizer, grads=None):
    """AdamW's, of which MindNLP decays the weights by visits to memory of their own: two, and a new array."""
    groups, zeros_like = optimizer.param_groups, mindspore.ops.zeros_like
    if any(group["amsgrad"] or group["maximize"] for group in groups):
        return stock(optimizer, grads)
    for group in groups:
        (beta1, beta2), lr, epsilon = group["betas"], group["lr"], group["eps"]
        kept = 1 - lr * group["weight_decay"]
        otherwise = _decay_first(kept)
        for parameter in group["params"]:
            state = optimizer.state[parameter]
            if not state:
                state.update(step=0, exp_avg=zeros_like(parameter), exp_avg_sq=zeros_like(parameter))
            state["step"] += 1
            tensors = parameter, state["exp_avg"], state["exp_avg_sq"]
            powers = beta1 ** state["step"], beta2 ** state["step"]
            adam(otherwise, *tensors, *powers, lr, beta1, beta2, epsilon, parameter.grad, kept)


def _decay_first(kept):
    """MindNLP's step of what the compiled loop does not take, such as float16."""

    def step(parameter, *arguments):
        from mindnlp.core.ops import optim

        if kept != 1:
            mindspore.ops.assign(parameter, kept * parameter)
        optim.raw_adam(parameter, *arguments)

    return step


def adam(
    stock, parameter, mean, mean_of_squares, beta1_power, beta2_power, lr, beta1, beta2, epsilon, gradient, kept=1.0
):
    """By MindSpore's formula, which adds epsilon before the correction for the first steps; all written to in place.

    The parameter is first multiplied by ``kept``.
    """
    tensors = parameter, mean, mean_of_squares, gradient
    fit = are_float32(*tensors) and all(tensor.shape == parameter.shape for tensor in tensors)
    if not fit or not all(tensor.is_contiguous() for tensor in tensors):
        numbers = beta1_power, beta2_power, lr, beta1, beta2, epsilon
        return stock(parameter, mean, mean_of_squares, *numbers, gradient)
    factors = _factors(*map(float, (beta1_power, beta2_power, lr, beta1, beta2, epsilon, kept)))
    arrays = [tensor.asnumpy().reshape(-1) for tensor in tensors]
    over_rows(lambda part: _step(*(array[part] for array in arrays), *factors), arrays[0])
    for tensor, array in zip(tensors[:3], arrays):
        if not shares_memory(tensor, array):
            tensor.assign_value(mindspore.Tensor.from_numpy(array.reshape(tensor.shape)))
    return parameter, mean, mean_of_squares


@functools.lru_cache(maxsize=8)
def _factors(beta1_power, beta2_power, lr, beta1, beta2, epsilon, kept):
    """Of all numbers; computed once for the parameters of a step."""
    with np.errstate(all="ignore"):
        numbers = map(np.float32, (beta1_power, beta2_power, lr, beta1, beta2, epsilon, kept))
        beta1_power, beta2_power, lr, beta1, beta2, epsilon, kept = numbers
        rate = lr * np.sqrt(ONE - beta2_power) / (ONE - beta1_power)
    return kept, rate, ONE - beta1, ONE - beta2, epsilon


@compiled
def _step(parameter, mean, mean_of_squares, gradient, kept, rate, part_of_mean, part_of_squares, epsilon):
    for i in range(parameter.size):
        g = gradient[i]
        m = mean[i] + (g - mean[i]) * part_of_mean
        v = mean_of_squares[i] + (g * g - mean_of_squares[i]) * part_of_squares
        mean[i], mean_of_squares[i] = m, v
        parameter[i] = parameter[i] * kept - m / (np.sqrt(v) + epsilon) * rate
