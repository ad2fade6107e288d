"""Adam's step: MindSpore's but for rounding, and each number to the same bits wherever it stands."""

import itertools

import mindspore
import numpy as np
import pytest
from mindnlp.core import ops

from mindnlp_dp_plugin.cpu_operators.adam import adam
from tests.cpu_operators.compared import never

SIZE = 70_001  # more than two blocks, and odd
NUM_STEPS = 8


def gradients():
    chance = np.random.default_rng(1)
    return [chance.standard_normal(SIZE) * 10.0 ** chance.integers(-8, 1, SIZE) for _ in range(NUM_STEPS)]


def stepped(step, cuts=()):
    """Parameters, first and second moments after some steps of ``raw_adam``, for a parameter cut into slices."""
    borders = list(itertools.pairwise((0, *cuts, SIZE)))
    values = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
    slices = [[mindspore.Tensor(values[begin:end]) for begin, end in borders]]
    slices += [[ops.zeros_like(parameter) for parameter in slices[0]] for _ in range(2)]
    for number, gradient in enumerate(gradients(), 1):
        for (begin, end), *tensors in zip(borders, *slices):
            of_slice = mindspore.Tensor(gradient[begin:end].astype(np.float32))
            step(*tensors, 0.9**number, 0.999**number, 1e-3, 0.9, 0.999, 1e-8, of_slice)
    return [np.concatenate([tensor.asnumpy() for tensor in tensors]) for tensors in slices]


def test_it_steps_as_mindspore_s(stock):
    mine = stepped(lambda *arguments: adam(never, *arguments))
    for values, expected in zip(mine, stepped(stock["raw_adam"]), strict=True):
        np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)


def test_a_number_s_bits_do_not_depend_on_its_place():
    whole = stepped(lambda *arguments: adam(never, *arguments))
    parts = stepped(lambda *arguments: adam(never, *arguments), cuts=(1, 777, 778, 50_003))
    for values, expected in zip(parts, whole, strict=True):
        np.testing.assert_array_equal(values, expected)


def in_numpy(parameter, mean, mean_of_squares, beta1_power, beta2_power, lr, beta1, beta2, epsilon, gradient):
    """The formula, an operation of float32 after the other."""
    p, m, v, g = (tensor.asnumpy() for tensor in (parameter, mean, mean_of_squares, gradient))
    beta1_power, beta2_power, lr, beta1, beta2, epsilon, one = map(
        np.float32, (beta1_power, beta2_power, lr, beta1, beta2, epsilon, 1)
    )
    m = m + (g - m) * (one - beta1)
    v = v + (g * g - v) * (one - beta2)
    p = p - m / (np.sqrt(v) + epsilon) * (lr * np.sqrt(one - beta2_power) / (one - beta1_power))
    for tensor, values in zip((parameter, mean, mean_of_squares), (p, m, v)):
        tensor.assign_value(mindspore.Tensor(values))


def test_its_bits_are_those_of_numpy():
    """So they depend neither on the processor nor on how a compiled loop uses it."""
    mine = stepped(lambda *arguments: adam(never, *arguments))
    for values, expected in zip(mine, stepped(in_numpy), strict=True):
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("place", range(1, 4))
@pytest.mark.parametrize("shape", [(1, 5), (4,), (5, 4), (8, 5), (20,)])
def test_other_shapes_go_to_mindspore_s(place, shape):
    """A compiled loop would read and write whatever memory follows."""
    tensors = [mindspore.Tensor(np.ones((4, 5), np.float32)) for _ in range(4)]
    tensors[place] = mindspore.Tensor(np.ones(shape, np.float32))
    *states, gradient = tensors
    assert adam(lambda *_: "stock", *states, 0.9, 0.999, 1e-3, 0.9, 0.999, 1e-8, gradient) == "stock"


def test_an_infinite_gradient_gives_what_mindspore_gives(stock):
    for number in (np.inf, np.nan):
        results = []
        for step in (lambda *arguments: adam(never, *arguments), stock["raw_adam"]):
            tensors = [mindspore.Tensor(np.array(values, np.float32)) for values in ([1, 2], [0, 0], [0, 0])]
            step(*tensors, 0.9, 0.999, 1e-3, 0.9, 0.999, 1e-8, mindspore.Tensor(np.array([number, 1], np.float32)))
            results.append([np.isfinite(tensor.asnumpy()).tolist() for tensor in tensors])
        assert results[0] == results[1]
