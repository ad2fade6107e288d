"""Adam's step: MindSpore's but for rounding, and each number to the same bits wherever it stands."""

import mindnlp_dp_plugin as dp  # isort: skip

import itertools

import mindspore
import numpy as np
import pytest
from mindnlp.core import nn, ops
from mindnlp.core.optim import AdamW

from mindnlp_dp_plugin.cpu_operators.adam import adam, adamw_step
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


DECAYED = dict(lr=0.3, weight_decay=0.01, betas=(0.8, 0.99), eps=1e-6)


def after_three_steps(step, dtype=np.float32, **options):
    """Parameters and states of two groups, one of which keeps its weights."""
    chance = np.random.default_rng(2)
    parameters = [nn.Parameter(mindspore.Tensor(chance.standard_normal((7, 300)).astype(dtype))) for _ in range(3)]
    groups = [{"params": parameters[:2]}, {"params": parameters[2:], "weight_decay": 0.0}]
    optimizer = AdamW(groups, **{**DECAYED, **options})
    for _ in range(3):
        for parameter in parameters:
            parameter.grad = mindspore.Tensor(chance.standard_normal((7, 300)).astype(dtype))
        step(optimizer)
    states = [optimizer.state[parameter] for parameter in parameters]
    assert [state["step"] for state in states] == [3, 3, 3]
    return [parameter.asnumpy() for parameter in parameters] + [
        state[name].asnumpy() for state in states for name in ("exp_avg", "exp_avg_sq")
    ]


def test_weights_decay_to_the_bits_of_mindnlps_own_visit(stock, monkeypatch):
    mine = after_three_steps(lambda optimizer: adamw_step(never, optimizer))
    monkeypatch.setattr("mindnlp.core.ops.optim.raw_adam", lambda *arguments: adam(never, *arguments))
    for values, expected in zip(mine, after_three_steps(AdamW.step), strict=True):
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("options", [{"amsgrad": True}, {"maximize": True}, {"dtype": np.float16}])
def test_what_mindnlp_steps_otherwise_is_its_own(stock, options):
    mine = after_three_steps(lambda optimizer: adamw_step(AdamW.step, optimizer), **options)
    for values, expected in zip(mine, after_three_steps(AdamW.step, **options), strict=True):
        np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("cut", [lambda flat: flat.reshape(2, 2), lambda flat: flat[:3], lambda flat: flat[2:]])
def test_views_are_trained_and_so_are_moments_that_are(weight_decay, cut):
    """Of a view, MindSpore's ``asnumpy`` is a copy, which nobody reads."""

    def stepped_twice(of):
        parameter = nn.Parameter(of(mindspore.Tensor(np.arange(4, dtype=np.float32)) * 1))
        optimizer = AdamW([parameter], lr=0.1, weight_decay=weight_decay)
        moments = [of(mindspore.ops.zeros(4, mindspore.float32)) for _ in range(2)]
        optimizer.state[parameter].update(step=0, exp_avg=moments[0], exp_avg_sq=moments[1])
        for _ in range(2):
            parameter.grad = of(mindspore.ops.ones(4, mindspore.float32))
            adamw_step(never, optimizer)
        return [tensor.asnumpy().copy() for tensor in (parameter, *moments)]

    expected = stepped_twice(lambda flat: mindspore.Tensor(cut(flat).asnumpy().copy()))
    for values, of_owner in zip(stepped_twice(cut), expected, strict=True):
        np.testing.assert_array_equal(values, of_owner)
    assert expected[0].any() and expected[1].all()


def test_the_installed_plugin_steps_adamw_in_one_visit_and_uninstalled_leaves_it(stock):
    assert not hasattr(AdamW.step, "__wrapped__")
    dp.install()
    try:
        assert AdamW.step.__wrapped__
    finally:
        dp.uninstall()
