"""Operators for the CPU give the values and the gradients of those MindNLP calls."""

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from mindnlp.core import ops as core_ops
from mindnlp.core.nn import functional
from scipy.special import erf

from mindnlp_dp_plugin import operators
from mindnlp_dp_plugin.patching import Replacements

few = settings(max_examples=25, deadline=None)


@pytest.fixture(scope="module")
def stock():
    dp.uninstall()
    yield {"linear": functional.linear, "gelu": functional.gelu, "matmul": core_ops.matmul}
    dp.install()


def tensor(chance, *shape, dtype=np.float32):
    return mindspore.Tensor(chance.standard_normal(shape).astype(dtype))


def values_and_gradients(function, *tensors):
    """The results, and the gradients of their sum weighted by place: alike for all only if each is right."""
    results = function(*tensors)
    weights = mindspore.Tensor(np.linspace(-1, 1, results.size, dtype=np.float32).reshape(results.shape))
    gradients = mindspore.grad(lambda *t: (function(*t) * weights).sum(), tuple(range(len(tensors))))(*tensors)
    return [results, *(gradients if isinstance(gradients, tuple) else (gradients,))]


def assert_like_stock(operator, stock, *tensors):
    routed = values_and_gradients(lambda *t: operator(stock, *t), *tensors)
    for mine, theirs in zip(routed, values_and_gradients(stock, *tensors), strict=True):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        largest = np.abs(theirs.asnumpy()).max()
        np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), rtol=0, atol=2e-6 * largest)


@few
@given(rows=array_shapes(min_dims=1, max_dims=3, max_side=5), sizes=st.tuples(*[st.integers(1, 40)] * 2))
def test_linear(stock, rows, sizes):
    chance = np.random.default_rng(sum(rows))
    num_in, num_out = sizes
    inputs, weight = tensor(chance, *rows, num_in), tensor(chance, num_out, num_in)
    assert_like_stock(operators.linear, stock["linear"], inputs, weight, tensor(chance, num_out))
    assert_like_stock(operators.linear, stock["linear"], inputs, weight)


@few
# From 2 on: MindSpore's own gradient of ops.matmul fails for one batch and an inner size of 1.
@given(batch=array_shapes(min_dims=1, max_dims=2, max_side=4), sizes=st.tuples(*[st.integers(2, 20)] * 3))
def test_batched_products(stock, batch, sizes):
    chance = np.random.default_rng(sum(batch))
    rows, inner, columns = sizes
    left = tensor(chance, *batch, rows, inner)
    assert_like_stock(operators.matmul, stock["matmul"], left, tensor(chance, *batch, inner, columns))
    transposed = tensor(chance, *batch, columns, inner)
    assert_like_stock(
        lambda function, a, b: operators.matmul(function, a, b.swapaxes(-1, -2)),
        lambda a, b: stock["matmul"](a, b.swapaxes(-1, -2)),
        left,
        transposed,
    )


def test_gelu_is_the_exact_one(stock):
    points = np.linspace(-10, 10, 100_001).astype(np.float32)
    assert_like_stock(operators.gelu, stock["gelu"], mindspore.Tensor(points))
    exact = points * 0.5 * (1 + erf(points.astype(np.float64) / np.sqrt(2)))
    np.testing.assert_allclose(operators.gelu(None, mindspore.Tensor(points)).asnumpy(), exact, rtol=0, atol=5e-7)


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("linear", ((3, 4), (5, 4))),
        ("gelu", ((3, 4),)),
        ("matmul", ((2, 3, 4), (2, 4, 5))),
    ],
)
def test_other_dtypes_go_the_way_they_went(operator, arguments):
    halves = [mindspore.ops.ones(shape, mindspore.float16) for shape in arguments]
    assert getattr(operators, operator)(lambda *_: "stock", *halves) == "stock"


def test_other_forms_go_the_way_they_went():
    ones = mindspore.ops.ones
    assert operators.gelu(lambda *_: "stock", ones((2, 3)), "tanh") == "stock"
    assert operators.matmul(lambda *_: "stock", ones((2, 3)), ones((3, 2))) == "stock"
    assert operators.matmul(lambda *_: "stock", ones((2, 4, 3)), ones((3, 2))) == "stock"
    assert operators.matmul(lambda *_: "stock", ones((2, 4, 3)), ones((1, 3, 2))) == "stock"


def test_routed_and_taken_back(stock):
    replacements = Replacements()
    operators.route(replacements)
    assert functional.linear.func is operators.linear
    assert core_ops.matmul.func is operators.matmul
    replacements.undo()
    assert functional.linear is stock["linear"] and core_ops.matmul is stock["matmul"]
