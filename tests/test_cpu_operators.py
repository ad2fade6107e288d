"""Operators for the CPU give the values and the gradients of those MindNLP calls."""

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes
from mindnlp.core import nn
from mindnlp.core import ops as core_ops
from mindnlp.core.nn import functional
from scipy.special import erf

from mindnlp_dp_plugin import cpu_operators
from mindnlp_dp_plugin.cpu_operators import arithmetic
from mindnlp_dp_plugin.patching import Replacements

few = settings(max_examples=25, deadline=None)


@pytest.fixture(scope="module")
def stock():
    dp.uninstall()
    yield {
        **{name: getattr(functional, name) for name in ("linear", "gelu", "softmax", "layer_norm", "cross_entropy")},
        "matmul": core_ops.matmul,
        **{name: getattr(mindspore.Tensor, name) for name in ("__truediv__", "__add__")},
    }
    dp.install()


def never(*_):
    raise AssertionError("went to MindNLP's own")


def tensor(chance, *shape, dtype=np.float32):
    return mindspore.Tensor(chance.standard_normal(shape).astype(dtype))


def values_and_gradients(function, *tensors):
    """The results, and the gradients of their sum weighted by place: alike for all only if each is right."""
    results = function(*tensors)
    weights = mindspore.Tensor(np.cos(np.arange(results.size)).astype(np.float32).reshape(results.shape))
    gradients = mindspore.grad(lambda *t: (function(*t) * weights).sum(), tuple(range(len(tensors))))(*tensors)
    return [results, *(gradients if isinstance(gradients, tuple) else (gradients,))]


def assert_like_stock(operator, stock, *tensors, atol=2e-6):
    routed = values_and_gradients(lambda *t: operator(stock, *t), *tensors)
    for mine, theirs in zip(routed, values_and_gradients(stock, *tensors), strict=True):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        largest = max(1, np.abs(theirs.asnumpy()).max())  # what is summed is of the size of 1, even if nothing is left
        np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), rtol=0, atol=atol * largest)


@few
@given(rows=array_shapes(min_dims=1, max_dims=3, max_side=5), sizes=st.tuples(*[st.integers(1, 40)] * 2))
def test_linear(stock, rows, sizes):
    chance = np.random.default_rng(sum(rows))
    num_in, num_out = sizes
    inputs, weight = tensor(chance, *rows, num_in), tensor(chance, num_out, num_in)
    assert_like_stock(cpu_operators.linear, stock["linear"], inputs, weight, tensor(chance, num_out))
    assert_like_stock(cpu_operators.linear, stock["linear"], inputs, weight)


@few
# From 2 on: MindSpore's own gradient of ops.matmul fails for one batch and an inner size of 1.
@given(batch=array_shapes(min_dims=1, max_dims=2, max_side=4), sizes=st.tuples(*[st.integers(2, 20)] * 3))
def test_batched_products(stock, batch, sizes):
    chance = np.random.default_rng(sum(batch))
    rows, inner, columns = sizes
    left = tensor(chance, *batch, rows, inner)
    assert_like_stock(cpu_operators.matmul, stock["matmul"], left, tensor(chance, *batch, inner, columns))
    transposed = tensor(chance, *batch, columns, inner)
    assert_like_stock(
        lambda function, a, b: cpu_operators.matmul(function, a, b.swapaxes(-1, -2)),
        lambda a, b: stock["matmul"](a, b.swapaxes(-1, -2)),
        left,
        transposed,
    )


def test_products_of_what_attention_transposes(stock):
    chance = np.random.default_rng(0)
    queries, keys, weights = (tensor(chance, *shape) for shape in ((2, 7, 3, 4), (2, 7, 3, 4), (2, 3, 7, 7)))

    def scores(matmul, queries, keys):
        return matmul(queries.permute(0, 2, 1, 3), keys.permute(0, 2, 1, 3).swapaxes(-1, -2))

    def context(matmul, weights, values):
        return matmul(weights, values.permute(0, 2, 1, 3)).permute(0, 2, 1, 3).reshape(2, 7, 12)

    for way, arguments in ((scores, (queries, keys)), (context, (weights, keys))):
        assert_like_stock(
            lambda _, *t, way=way: way(lambda *two: cpu_operators.matmul(None, *two), *t),
            lambda *t, way=way: way(stock["matmul"], *t),
            *arguments,
        )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", [8, 8.0, 3.0, 0.7, 0])
def test_division_by_a_number(stock, number):
    numerator = tensor(np.random.default_rng(0), 2, 3, 5)
    quotient = arithmetic.__truediv__(never, numerator, number)
    np.testing.assert_array_equal(quotient.asnumpy(), (numerator / number).asnumpy())
    if number:
        assert_like_stock(
            lambda _, t: arithmetic.__truediv__(never, t, number), lambda t: stock["__truediv__"](t, number), numerator
        )


@few
@given(shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4))
def test_sums_of_shapes_that_differ(stock, shapes):
    chance = np.random.default_rng(0)
    summands = [tensor(chance, *shape) for shape in shapes.input_shapes]
    total = arithmetic.__add__(stock["__add__"], *summands)
    np.testing.assert_array_equal(total.asnumpy(), np.add(*(summand.asnumpy() for summand in summands)))
    assert_like_stock(arithmetic.__add__, stock["__add__"], *summands)


@pytest.mark.parametrize("shapes", [((4, 3), (3,)), ((3,), (4, 3)), ((64,), (1,)), ((4, 1), (1, 3))])
def test_gradients_of_a_bias_can_be_clipped(shapes):
    """MindSpore refuses to write to a view, and clipping writes to gradients."""
    parameters = [nn.Parameter(tensor(np.random.default_rng(0), *shape)) for shape in shapes]
    gradients = mindspore.grad(lambda a, b: (arithmetic.__add__(never, a, b) ** 2).sum(), (0, 1))(*parameters)
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    nn.utils.clip_grad_norm_(parameters, 1e-3)
    squares = sum(float((parameter.grad.asnumpy() ** 2).sum()) for parameter in parameters)
    np.testing.assert_allclose(squares**0.5, 1e-3, rtol=1e-4)


def test_sums_of_shapes_that_do_not_fit(stock):
    summands = [tensor(np.random.default_rng(0), *shape) for shape in ((2, 3), (2, 4))]
    with pytest.raises(ValueError, match="broadcast"):
        arithmetic.__add__(stock["__add__"], *summands).asnumpy()


def test_frozen_weights_get_no_gradient(stock):
    chance = np.random.default_rng(0)
    inputs, weight, bias = tensor(chance, 5, 3), tensor(chance, 4, 3), tensor(chance, 4)
    for number, of in enumerate((inputs, weight, bias)):
        mine, theirs = (
            mindspore.grad(lambda *t, linear=linear: linear(*t).sum(), number)(inputs, weight, bias)
            for linear in (lambda *t: cpu_operators.linear(None, *t), stock["linear"])
        )
        assert mine.shape == of.shape
        np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), rtol=1e-5)


@few
# From 2 on: once MindSpore has differentiated a softmax over an axis of 1, its gradients of longer ones are wrong.
@given(rows=array_shapes(min_dims=1, max_dims=3, max_side=9), length=st.integers(2, 200))
@example(rows=(300,), length=257)  # more than a block holds
def test_along_the_last_axis(stock, rows, length):
    chance = np.random.default_rng(length)
    inputs = tensor(chance, *rows, length)
    assert_like_stock(cpu_operators.gelu, stock["gelu"], inputs)
    assert_like_stock(cpu_operators.softmax, stock["softmax"], inputs)
    if length < 8:  # the deviation of a few numbers may be next to nothing, and LayerNorm divides by it
        return
    assert_like_stock(
        lambda stock, *t: cpu_operators.layer_norm(stock, t[0], (length,), *t[1:]),
        lambda *t: stock["layer_norm"](t[0], (length,), *t[1:]),
        inputs, tensor(chance, length), tensor(chance, length),
    )  # fmt: skip


@few
@given(num_rows=st.integers(1, 40), num_classes=st.integers(2, 50), num_ignored=st.integers(0, 39))
@example(num_rows=300, num_classes=257, num_ignored=3)  # more than a block holds
def test_cross_entropy(stock, num_rows, num_classes, num_ignored):
    chance = np.random.default_rng(num_rows)
    logits, labels = tensor(chance, num_rows, num_classes), chance.integers(num_classes, size=num_rows)
    counted = np.arange(num_rows) >= num_ignored % num_rows
    target = mindspore.Tensor(np.where(counted, labels, -100))
    assert_like_stock(
        lambda stock, t: cpu_operators.cross_entropy(stock, t, target),
        lambda t: stock["cross_entropy"](t, target),
        logits,
        atol=5e-6,  # MindSpore's logarithms are that far off
    )
    exact = logits.asnumpy().astype(np.float64)
    losses = np.log(np.exp(exact).sum(-1)) - exact[np.arange(num_rows), labels]
    mine = cpu_operators.cross_entropy(None, logits, target).asnumpy()
    np.testing.assert_allclose(mine, losses[counted].mean(), rtol=5e-7, atol=2e-7)


def test_cross_entropy_of_no_row_that_counts(stock):
    logits, nothing = tensor(np.random.default_rng(0), 3, 4), mindspore.Tensor([-100] * 3)
    for function in (stock["cross_entropy"], lambda *t: cpu_operators.cross_entropy(None, *t)):
        loss, gradient = mindspore.value_and_grad(lambda t, f=function: f(t, nothing))(logits)
        assert np.isnan(loss.asnumpy()) and not gradient.asnumpy().any()


def test_softmax_of_one_number_first():
    one, several = (tensor(np.random.default_rng(0), 3, length) for length in (1, 4))
    assert not values_and_gradients(lambda t: cpu_operators.softmax(None, t), one)[1].asnumpy().any()
    values, gradient = values_and_gradients(lambda t: cpu_operators.softmax(None, t), several)
    weights = np.cos(np.arange(12)).reshape(3, 4)
    mean = (values.asnumpy() * weights).sum(-1, keepdims=True)
    np.testing.assert_allclose(gradient.asnumpy(), values.asnumpy() * (weights - mean), atol=1e-6)


def test_softmax_of_what_is_masked():
    masked = np.array([[0, 1, np.finfo(np.float32).min], [-np.inf, 5, -np.inf]], np.float32)
    values = cpu_operators.softmax(None, mindspore.Tensor(masked)).asnumpy()
    np.testing.assert_allclose(values, [[1 / (1 + np.e), np.e / (1 + np.e), 0], [0, 1, 0]], rtol=1e-6)


def test_gelu_is_the_exact_one(stock):
    points = np.linspace(-10, 10, 100_001).astype(np.float32)
    assert_like_stock(cpu_operators.gelu, stock["gelu"], mindspore.Tensor(points))
    exact = points * 0.5 * (1 + erf(points.astype(np.float64) / np.sqrt(2)))
    np.testing.assert_allclose(cpu_operators.gelu(None, mindspore.Tensor(points)).asnumpy(), exact, rtol=0, atol=5e-7)


@pytest.mark.parametrize(
    ("operator", "arguments"),
    [
        ("linear", ((3, 4), (5, 4))),
        ("gelu", ((3, 4),)),
        ("matmul", ((2, 3, 4), (2, 4, 5))),
        ("softmax", ((3, 4),)),
    ],
)
def test_other_dtypes_go_the_way_they_went(operator, arguments):
    halves = [mindspore.ops.ones(shape, mindspore.float16) for shape in arguments]
    assert getattr(cpu_operators, operator)(lambda *_, **options: "stock", *halves) == "stock"


def test_other_quotients_go_the_way_they_went():
    ones = mindspore.ops.ones
    for numerator, divisor in (
        (ones((2, 3)), ones((2, 3))),
        (ones((2, 3), mindspore.float16), 2.0),
        (ones((2, 3), mindspore.int32), 2),
        (mindspore.Tensor(1.0), 2.0),
    ):
        assert arithmetic.__truediv__(lambda *_: "stock", numerator, divisor) == "stock"


def test_half_precision_logits_go_the_way_they_went():
    logits, classes = mindspore.ops.ones((2, 3), mindspore.float16), mindspore.ops.ones((2,), mindspore.int32)
    assert cpu_operators.cross_entropy(lambda *_: "stock", logits, classes) == "stock"


def test_other_forms_go_the_way_they_went():
    ones = mindspore.ops.ones
    assert cpu_operators.gelu(lambda *_: "stock", ones((2, 3)), "tanh") == "stock"
    assert cpu_operators.matmul(lambda *_: "stock", ones((2, 3)), ones((3, 2))) == "stock"
    assert cpu_operators.matmul(lambda *_: "stock", ones((2, 4, 3)), ones((3, 2))) == "stock"
    assert cpu_operators.matmul(lambda *_: "stock", ones((2, 4, 3)), ones((1, 3, 2))) == "stock"
    assert cpu_operators.softmax(lambda *_, **options: "stock", ones((2, 3)), 0) == "stock"
    assert cpu_operators.softmax(lambda *_, **options: "stock", ones((2, 3)), -1, dtype=mindspore.float16) == "stock"
    assert cpu_operators.layer_norm(lambda *_: "stock", ones((2, 3)), (3,)) == "stock"
    classes = ones((2,), mindspore.int32)
    for arguments in (
        (ones((2, 3)), classes, ones((3,))),
        (ones((2, 3)), classes, None, -100, "sum"),
        (ones((2, 3)), classes, None, -100, "mean", 0.1),
        (ones((2, 3)), ones((2, 3))),
        (ones((2, 3, 2)), ones((2, 2), mindspore.int32)),
    ):
        assert cpu_operators.cross_entropy(lambda *_: "stock", *arguments) == "stock"
    assert cpu_operators.layer_norm(lambda *_: "stock", ones((2, 3)), (2, 3), ones((2, 3)), ones((2, 3))) == "stock"


def test_routed_and_taken_back(stock):
    replacements = Replacements()
    cpu_operators.route(replacements)
    for module, operator in cpu_operators.ROUTED:
        assert getattr(module, operator.__name__).__wrapped__ is stock[operator.__name__]
    replacements.undo()
    for module, operator in cpu_operators.ROUTED:
        assert getattr(module, operator.__name__) is stock[operator.__name__]
