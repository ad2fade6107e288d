"""Tensors in the host's memory as NumPy arrays."""

import functools

import mindspore
import numpy as np

RUN = 2**13  # numbers that float32 sums well, and that BLAS does not distribute over threads


@functools.cache
def are_views() -> bool:
    """Whether the array of a tensor that MindSpore has computed is its memory. In MindSpore 2.7 it is a copy."""
    tensor = mindspore.ops.zeros(1, mindspore.float32)
    tensor.asnumpy()[:] = 1
    return bool(tensor.asnumpy()[0] == 1)


def sums_of_squares(values: np.ndarray) -> list[float]:
    """Of one gradient, run by run, so that neither buckets nor threads nor the engine change a norm's last bit."""
    values = values.reshape(-1)
    runs = (values[begin : begin + RUN] for begin in range(0, values.size, RUN))
    return [float(np.dot(run, run)) for run in runs]
