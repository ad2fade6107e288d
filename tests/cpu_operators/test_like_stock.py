"""Each operator gives the values and the gradients of MindNLP's own, whatever the shape, the layout and the numbers."""

from functools import partial

import mindspore
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes
from mindnlp.transformers.models.deberta_v2.modeling_deberta_v2 import XSoftmax
from scipy.special import erf

from mindnlp_dp_plugin.cpu_operators.activations import gelu, silu
from mindnlp_dp_plugin.cpu_operators.add import add
from mindnlp_dp_plugin.cpu_operators.cross_entropy import cross_entropy
from mindnlp_dp_plugin.cpu_operators.divide import divide
from mindnlp_dp_plugin.cpu_operators.dropout import dropout
from mindnlp_dp_plugin.cpu_operators.embedding import embedding
from mindnlp_dp_plugin.cpu_operators.gather import gather
from mindnlp_dp_plugin.cpu_operators.layer_norm import layer_norm
from mindnlp_dp_plugin.cpu_operators.linear import linear
from mindnlp_dp_plugin.cpu_operators.masked_fill import masked_fill, where
from mindnlp_dp_plugin.cpu_operators.matmul import matmul
from mindnlp_dp_plugin.cpu_operators.mean import mean
from mindnlp_dp_plugin.cpu_operators.multiply import multiply
from mindnlp_dp_plugin.cpu_operators.rotary import rotate_half
from mindnlp_dp_plugin.cpu_operators.softmax import masked_softmax, softmax
from mindnlp_dp_plugin.cpu_operators.square import power
from mindnlp_dp_plugin.cpu_operators.view import add_in_place, contiguous, view
from mindnlp_dp_plugin.ddp.host_memory import are_views
from tests.cpu_operators.compared import assert_like_stock, never, tensor, values_and_gradients

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")
few = settings(max_examples=20)
EDGES = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-30, 1e30, -1e30, 88.0, -104.0]

# What a model does to a tensor before an operator sees it, to a leaf that has what it takes away.
LAYOUTS = {
    "as it is": (lambda shape: shape, lambda leaf: leaf),
    "transposed": (lambda shape: (*shape[:-2], *shape[:-3:-1]), lambda leaf: leaf.swapaxes(-1, -2)),
    "every second": (lambda shape: (*shape[:-1], 2 * shape[-1]), lambda leaf: leaf[..., ::2]),
    "the end": (lambda shape: (shape[0] + 2, *shape[1:]), lambda leaf: leaf[2:]),
}
layouts = st.sampled_from(list(LAYOUTS))
edges = st.lists(st.sampled_from(EDGES), max_size=4)


def leaf_and_view(chance, shape, layout):
    """A tensor, and the function that makes of it one of that shape in that layout."""
    shape_of_leaf, view = LAYOUTS[layout if len(shape) > 1 else "as it is"]
    return tensor(chance, *shape_of_leaf(shape)), view


def with_edges(leaf, numbers):
    values = leaf.asnumpy().copy()
    values.reshape(-1)[: len(numbers)] = numbers[: values.size]
    return mindspore.Tensor(values)


@few
@given(
    rows=array_shapes(min_dims=1, max_dims=3, max_side=5),
    sizes=st.tuples(*[st.integers(1, 40)] * 2),
    of_input=layouts,
    of_weight=layouts,
    numbers=edges,
)
@example(rows=(70,), sizes=(600, 600), of_input="as it is", of_weight="as it is", numbers=[])  # cut into pieces
def test_linear(stock, rows, sizes, of_input, of_weight, numbers):
    chance = np.random.default_rng(sum(rows))
    num_in, num_out = sizes
    input, view = leaf_and_view(chance, (*rows, num_in), of_input)
    weight, view_weight = leaf_and_view(chance, (num_out, num_in), of_weight)
    for rest in ((), (tensor(chance, num_out),)):
        assert_like_stock(
            lambda stock, *t: linear(never, view(t[0]), view_weight(t[1]), *t[2:]),
            lambda *t: stock["linear"](view(t[0]), view_weight(t[1]), *t[2:]),
            with_edges(input, [number for number in numbers if abs(number) < 1e3]), weight, *rest,
            atol=5e-6,
        )  # fmt: skip


@few
# From 2 on: MindSpore's own gradient of ops.matmul fails for one batch and an inner size of 1.
@given(
    batch=array_shapes(min_dims=1, max_dims=2, max_side=4),
    sizes=st.tuples(*[st.integers(2, 20)] * 3),
    of_left=layouts,
    of_right=layouts,
)
def test_matmul(stock, batch, sizes, of_left, of_right):
    chance = np.random.default_rng(sum(batch))
    rows, inner, columns = sizes
    left, view_left = leaf_and_view(chance, (*batch, rows, inner), of_left)
    right, view_right = leaf_and_view(chance, (*batch, inner, columns), of_right)
    assert_like_stock(
        lambda stock, a, b: matmul(never, view_left(a), view_right(b)),
        lambda a, b: stock["matmul"](view_left(a), view_right(b)),
        left,
        right,
    )


@few
@given(
    rows=array_shapes(min_dims=1, max_dims=3, max_side=5),
    sizes=st.tuples(*[st.integers(2, 40)] * 2),
    of_input=layouts,
    of_matrix=layouts,
)
@example(rows=(70,), sizes=(600, 600), of_input="as it is", of_matrix="as it is")  # cut into pieces
def test_rows_by_a_matrix(stock, rows, sizes, of_input, of_matrix):
    chance = np.random.default_rng(sum(rows))
    input, view = leaf_and_view(chance, (*rows, sizes[0]), of_input)
    matrix, view_matrix = leaf_and_view(chance, sizes, of_matrix)
    assert_like_stock(
        lambda _, *t: matmul(never, view(t[0]), view_matrix(t[1])),
        lambda *t: stock["matmul"](view(t[0]), view_matrix(t[1])),
        input,
        matrix,
        atol=5e-6,
    )


def test_products_of_what_attention_transposes(stock):
    chance = np.random.default_rng(0)
    queries, keys, weights = (tensor(chance, *shape) for shape in ((2, 7, 3, 4), (2, 7, 3, 4), (2, 3, 7, 7)))

    def scores(product, queries, keys):
        return product(queries.permute(0, 2, 1, 3), keys.permute(0, 2, 1, 3).swapaxes(-1, -2))

    def context(product, weights, values):
        return product(weights, values.permute(0, 2, 1, 3)).permute(0, 2, 1, 3).reshape(2, 7, 12)

    for way, arguments in ((scores, (queries, keys)), (context, (weights, keys))):
        assert_like_stock(
            lambda _, *t, way=way: way(lambda *two: matmul(never, *two), *t),
            lambda *t, way=way: way(stock["matmul"], *t),
            *arguments,
        )


@few
@given(
    shape=array_shapes(max_dims=3, max_side=5),
    number=st.sampled_from([8, 8.0, 3.0, 0.7, 0, -1e-3, 2**40 + 1, 1e60, np.inf, True]),
    layout=layouts,
    numbers=edges,
)
def test_division_by_a_number(stock, shape, number, layout, numbers):
    leaf, view = leaf_and_view(np.random.default_rng(0), shape, layout)
    leaf = with_edges(leaf, [n for n in numbers if number or not np.isnan(n)])  # MindSpore: nan / 0 is -inf
    mine, theirs = (
        values_and_gradients(function, leaf)
        for function in (lambda t: divide(never, view(t), number), lambda t: stock["__truediv__"](view(t), number))
    )
    for one, other in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(one.asnumpy(), other.asnumpy())


@few
@given(
    shapes=mutually_broadcastable_shapes(num_shapes=2, min_dims=1, max_dims=4, max_side=4),
    layout=layouts,
    numbers=edges,
)
def test_sums_of_shapes_that_differ(stock, shapes, layout, numbers):
    chance = np.random.default_rng(0)
    left, right = shapes.input_shapes
    leaf, view = leaf_and_view(chance, left, layout)
    leaf, other = with_edges(leaf, numbers), tensor(chance, *right)
    total = add(stock["__add__"], view(leaf), other)
    np.testing.assert_array_equal(total.asnumpy(), view(leaf).asnumpy() + other.asnumpy())
    for first, second in ((0, 1), (1, 0)):
        assert_like_stock(
            lambda stock, *t, of=(first, second): add(stock, *[(view(t[0]), t[1])[index] for index in of]),
            lambda *t, of=(first, second): stock["__add__"](*[(view(t[0]), t[1])[index] for index in of]),
            leaf,
            other,
        )


@few
@given(shapes=mutually_broadcastable_shapes(num_shapes=2, min_dims=1, max_dims=4, max_side=4), layout=layouts)
def test_products_of_shapes_that_differ(stock, shapes, layout):
    chance = np.random.default_rng(0)
    left, right = shapes.input_shapes
    leaf, view = leaf_and_view(chance, left, layout)
    other = tensor(chance, *right)
    product = multiply(stock["__mul__"], view(leaf), other)
    np.testing.assert_array_equal(product.asnumpy(), view(leaf).asnumpy() * other.asnumpy())
    assert_like_stock(
        lambda stock, a, b: multiply(stock, view(a), b), lambda a, b: stock["__mul__"](view(a), b), leaf, other
    )


@pytest.mark.parametrize("operator, name", [(add, "__add__"), (multiply, "__mul__")])
@pytest.mark.parametrize(
    "layouts", [("transposed", "as it is"), ("as it is", "transposed"), ("every second", "the end")]
)
def test_equal_shapes_in_other_layouts(stock, operator, name, layouts):
    chance = np.random.default_rng(0)
    (left, view_left), (right, view_right) = (leaf_and_view(chance, (3, 4, 5), layout) for layout in layouts)
    assert_like_stock(
        lambda _, a, b: operator(never, view_left(a), view_right(b)),
        lambda a, b: stock[name](view_left(a), view_right(b)),
        left,
        right,
    )


@few
@given(shape=array_shapes(min_dims=2, max_dims=4, max_side=5), layout=layouts, flat=st.booleans())
def test_views_that_have_to_be_copied(stock, shape, layout, flat):
    leaf, seen = leaf_and_view(np.random.default_rng(0), shape, layout)
    new = (-1,) if flat else (-1, *shape[2:])
    for mine, theirs in (
        (lambda _, t: view(stock["view"], seen(t), *new), lambda t: stock["view"](seen(t), *new)),
        (lambda _, t: view(stock["view"], seen(t), new), lambda t: stock["view"](seen(t), new)),
        (lambda _, t: contiguous(stock["contiguous"], seen(t)), lambda t: stock["contiguous"](seen(t))),
    ):
        assert mine(None, leaf).is_contiguous() == theirs(leaf).is_contiguous()
        assert_like_stock(mine, theirs, leaf, atol=0)


@pytest.mark.parametrize("layout", ["as it is", "transposed", "every second"])
def test_sums_in_place(stock, layout):
    chance = np.random.default_rng(0)
    other, seen = leaf_and_view(chance, (3, 4, 5), layout)
    assert_like_stock(
        lambda _, a, b: add_in_place(stock["__iadd__"], a * 2, seen(b)),
        lambda a, b: stock["__iadd__"](a * 2, seen(b)),
        tensor(chance, 3, 4, 5),
        other,
    )


@few
@given(
    shapes=mutually_broadcastable_shapes(num_shapes=1, base_shape=(3, 2, 4), min_dims=1, max_dims=3),
    layout=layouts,
    is_tensor=st.booleans(),
    repeats=st.booleans(),
)
def test_masks(stock, shapes, layout, is_tensor, repeats):
    chance = np.random.default_rng(0)
    leaf, seen = leaf_and_view(chance, (3, 2, 4), layout)
    value, rest = (tensor(chance), (tensor(chance),)) if is_tensor else (-1e4, ())
    mask = mindspore.Tensor(chance.random(shapes.input_shapes[0]) < 0.5)
    mask = mask.broadcast_to(shapes.result_shape) if repeats else mask
    if np.broadcast_shapes(mask.shape, (3, 2, 4)) != (3, 2, 4):
        return
    if is_tensor:
        cases = [(lambda s, t, v: where(s, mask, seen(t), v), lambda t, v: stock["where"](mask, seen(t), v))]
        rest = (value,)
    else:
        cases = [
            (lambda s, t: masked_fill(s, seen(t), mask, value), lambda t: stock["masked_fill"](seen(t), mask, value))
        ]
    for mine, theirs in cases:
        assert_like_stock(lambda _, *t, mine=mine: mine(never, *t), theirs, leaf, *rest)


def test_a_shape_that_does_not_fit_is_named_as_before(stock):
    with pytest.raises(ValueError, match=r"\{5, "):
        view(stock["view"], tensor(np.random.default_rng(0), 3, 4).swapaxes(0, 1), 5, -1).asnumpy()


@few
@given(
    shape=array_shapes(min_dims=1, max_dims=3, max_side=40),
    layout=layouts,
    p=st.sampled_from([2**-16, 0.1, 0.5, 0.9]),
    seed=st.integers(0, 9),
)
def test_dropout(shape, layout, p, seed):
    leaf, seen = leaf_and_view(np.random.default_rng(0), shape, layout)

    def dropped(_, t):
        mindspore.set_seed(seed)  # draws the same whenever it is called
        return dropout(never, seen(t), p)

    kept = dropped(None, leaf).asnumpy() != 0
    factors = mindspore.Tensor((kept / (1 - round(p * 2**16) / 2**16)).astype(np.float32))
    assert_like_stock(dropped, lambda t: seen(t) * factors, leaf)


def test_dropout_leaves_out_as_many_as_it_says_and_others_each_time():
    ones = mindspore.ops.ones((1000, 1000), mindspore.float32)
    first, second = (dropout(never, ones, 0.1).asnumpy() for _ in range(2))
    assert abs((first == 0).mean() - 0.1) < 0.002 and abs(first.mean() - 1) < 0.002
    assert abs(((first == 0) & (second == 0)).mean() - 0.01) < 0.001


@few
@given(rows=array_shapes(min_dims=1, max_dims=3, max_side=5), half=st.integers(1, 20), layout=layouts)
def test_rotate_half(stock, rows, half, layout):
    leaf, view = leaf_and_view(np.random.default_rng(0), (*rows, 2 * half), layout)
    assert_like_stock(
        lambda _, t: rotate_half(never, view(t)),
        lambda t: mindspore.ops.cat((-view(t)[..., half:], view(t)[..., :half]), -1),
        leaf,
    )


def test_sums_of_shapes_that_do_not_fit(stock):
    summands = [tensor(np.random.default_rng(0), *shape) for shape in ((2, 3), (2, 4))]
    with pytest.raises(ValueError, match="broadcast"):
        add(stock["__add__"], *summands).asnumpy()


@few
@given(
    shape=array_shapes(max_dims=4, max_side=9), layout=layouts, numbers=edges, form=st.sampled_from(["none", "tanh"])
)
@example(shape=(300, 257), layout="as it is", numbers=[], form="none")  # more than a block holds
def test_gelu(stock, shape, layout, numbers, form):
    leaf, view = leaf_and_view(np.random.default_rng(0), shape, layout)
    assert_like_stock(
        lambda stock, t: gelu(never, view(t), form),
        lambda t: stock["gelu"](view(t), form),
        # MindSpore's slopes are nan beyond 1e19, whose square is inf
        with_edges(leaf, [number for number in numbers if abs(number) < 1e19]),
    )


@few
@given(shape=array_shapes(max_dims=3, max_side=9), length=st.integers(1, 40))
@pytest.mark.skipif(not are_views(), reason="goes to MindNLP's own, or the table would be copied")
def test_embedding(stock, shape, length):
    chance = np.random.default_rng(length)
    places = mindspore.Tensor(chance.integers(length, size=shape))
    assert_like_stock(
        lambda _, table: embedding(never, places, table, padding_idx=0),
        lambda table: stock["embedding"](places, table, padding_idx=0),
        tensor(chance, length, 5),
    )


@few
@given(shape=array_shapes(max_dims=4, max_side=9), layout=layouts, numbers=edges)
def test_silu(stock, shape, layout, numbers):
    leaf, seen = leaf_and_view(np.random.default_rng(0), shape, layout)
    assert_like_stock(lambda _, t: silu(never, seen(t)), lambda t: stock["silu"](seen(t)), with_edges(leaf, numbers))


@few
@given(shape=array_shapes(max_dims=4, max_side=9), layout=layouts, keepdim=st.booleans())
def test_squares_and_means(stock, shape, layout, keepdim):
    leaf, seen = leaf_and_view(np.random.default_rng(0), shape, layout)
    assert_like_stock(lambda _, t: power(never, seen(t), 2), lambda t: stock["pow"](seen(t), 2), leaf)
    assert_like_stock(
        lambda _, t: mean(never, seen(t), -1, keepdim=keepdim),
        lambda t: stock["mean"](seen(t), -1, keepdim=keepdim),
        leaf,
    )


def test_gelu_is_the_exact_one(stock):
    points = np.linspace(-10, 10, 100_001).astype(np.float32)
    assert_like_stock(gelu, stock["gelu"], mindspore.Tensor(points))
    exact = points * 0.5 * (1 + erf(points.astype(np.float64) / np.sqrt(2)))
    np.testing.assert_allclose(gelu(never, mindspore.Tensor(points)).asnumpy(), exact, rtol=0, atol=5e-7)


PRODUCTS = {
    "linear": (linear, [(4, 6, 40), (30, 40), (30,)]),
    "a matrix for all rows": (matmul, [(4, 6, 40), (40, 30)]),
    "stacks": (matmul, [(4, 6, 40), (4, 40, 30)]),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_float16_are_summed_in_float32_and_rounded_once(name):
    operator, shapes = PRODUCTS[name]
    chance = np.random.default_rng(0)
    half = [tensor(chance, *shape).astype(mindspore.float16) for shape in shapes]
    weights = mindspore.Tensor(chance.integers(-8, 9, (4, 6, 30)).astype(np.float16))  # rounding leaves them alone

    def product(*factors):
        return operator(never, *factors)

    def gradients(*factors):
        return mindspore.grad(lambda *t: (product(*t) * weights).sum(), tuple(range(len(shapes))))(*factors)

    full = [factor.astype(mindspore.float32) for factor in half]
    for mine, exact in zip([product(*half), *gradients(*half)], [product(*full), *gradients(*full)], strict=True):
        assert mine.dtype == mindspore.float16
        np.testing.assert_array_equal(mine.asnumpy(), exact.asnumpy().astype(np.float16))


@pytest.mark.parametrize("form", ["none", "tanh"])
def test_gelu_of_float16_is_float32_s_rounded_once(form):
    points = np.linspace(-8, 8, 40_001).astype(np.float16)
    full, slope = values_and_gradients(lambda t: gelu(never, t, form), mindspore.Tensor(points.astype(np.float32)))
    half, slope_of_half = values_and_gradients(lambda t: gelu(never, t, form), mindspore.Tensor(points))
    np.testing.assert_array_equal(half.asnumpy(), full.asnumpy().astype(np.float16))
    # The gradient that comes in, the slope, and their product are each rounded.
    assert slope_of_half.dtype == mindspore.float16
    np.testing.assert_allclose(slope_of_half.asnumpy(), slope.asnumpy(), rtol=3.1 * 2.0**-11, atol=1e-6)


@few
# From 2 on: once MindSpore has differentiated a softmax over an axis of 1, its gradients of longer ones are wrong.
@given(rows=array_shapes(min_dims=1, max_dims=3, max_side=9), length=st.integers(2, 200), layout=layouts)
@example(rows=(300,), length=257, layout="as it is")  # more than a block holds
def test_softmax(stock, rows, length, layout):
    leaf, view = leaf_and_view(np.random.default_rng(length), (*rows, length), layout)
    assert_like_stock(lambda _, t: softmax(never, view(t), -1), lambda t: stock["softmax"](view(t), -1), leaf)


@few
@given(rows=st.lists(st.lists(st.sampled_from([*EDGES, 1.0, -2.0]), min_size=4, max_size=4), min_size=1, max_size=5))
@example(rows=[[-np.inf] * 4])
def test_softmax_of_edges(rows):
    """MindSpore's own gives zeros for all rows after one of nothing but -inf if they are shorter than 8."""
    scores = np.array(rows, np.float32)
    with np.errstate(all="ignore"):
        exact = np.exp(scores - scores.max(-1, keepdims=True).astype(np.float64))
        exact /= exact.sum(-1, keepdims=True)
    exact[(scores == -np.inf).all(-1)] = 0
    values, gradient = values_and_gradients(lambda t: softmax(never, t, -1), mindspore.Tensor(scores))
    np.testing.assert_allclose(values.asnumpy(), exact, atol=1e-6)
    weighted = exact * np.cos(np.arange(exact.size)).reshape(exact.shape)
    np.testing.assert_allclose(gradient.asnumpy(), weighted - exact * weighted.sum(-1, keepdims=True), atol=1e-6)


@few
@given(rows=st.tuples(*[st.integers(1, 4)] * 3), length=st.integers(8, 40), layout=layouts, mask_axes=st.integers(0, 3))
def test_softmax_of_deberta(stock, rows, length, layout, mask_axes):
    chance = np.random.default_rng(length)
    leaf, view = leaf_and_view(chance, (*rows, length), layout)
    shape = [1 if axis < mask_axes else size for axis, size in enumerate(rows)]
    mask = chance.integers(0, 2, (*shape, length))
    mask[..., :1, :] = 0  # nothing is left of the first row
    layer = XSoftmax(-1)
    assert_like_stock(
        lambda _, t: masked_softmax(never, layer, view(t), mindspore.Tensor(mask)),
        lambda t: layer(view(t), mindspore.Tensor(mask)),
        leaf,
    )


@few
@given(
    rows=array_shapes(min_dims=1, max_dims=3, max_side=5),
    sizes=st.tuples(st.integers(2, 20), st.integers(1, 20)),
    layout=layouts,
    is_repeated=st.booleans(),
)
def test_gather(stock, rows, sizes, layout, is_repeated):
    chance = np.random.default_rng(sum(rows))
    length, num_places = sizes
    leaf, view = leaf_and_view(chance, (*rows, length), layout)
    places = mindspore.Tensor(chance.integers(0, length, (1 if is_repeated else rows[0], *rows[1:], num_places)))
    places = places.broadcast_to((*rows, num_places))
    assert_like_stock(
        lambda _, t: gather(never, view(t), -1, places), lambda t: stock["gather"](view(t), -1, places), leaf
    )


def test_softmax_of_one_number_first():
    one, several = (tensor(np.random.default_rng(0), 3, length) for length in (1, 4))
    assert not values_and_gradients(lambda t: softmax(never, t), one)[1].asnumpy().any()
    values, gradient = values_and_gradients(lambda t: softmax(never, t), several)
    weights = np.cos(np.arange(12)).reshape(3, 4)
    mean = (values.asnumpy() * weights).sum(-1, keepdims=True)
    np.testing.assert_allclose(gradient.asnumpy(), values.asnumpy() * (weights - mean), atol=1e-6)


@few
# From 8 on: the deviation of a few numbers may be next to nothing, and LayerNorm divides by it.
@given(rows=array_shapes(min_dims=1, max_dims=3, max_side=9), length=st.integers(8, 200), layout=layouts)
@example(rows=(300,), length=257, layout="as it is")  # more than a block holds
def test_layer_norm(stock, rows, length, layout):
    chance = np.random.default_rng(length)
    leaf, view = leaf_and_view(chance, (*rows, length), layout)
    assert_like_stock(
        lambda _, *t: layer_norm(never, view(t[0]), (length,), *t[1:]),
        lambda *t: stock["layer_norm"](view(t[0]), (length,), *t[1:]),
        leaf, tensor(chance, length), tensor(chance, length),
    )  # fmt: skip


@few
@given(
    num_rows=st.integers(1, 40), num_classes=st.integers(2, 50), num_ignored=st.integers(0, 39), layout=layouts
)  # fmt: skip
@example(num_rows=300, num_classes=257, num_ignored=3, layout="as it is")  # more than a block holds
def test_cross_entropy(stock, num_rows, num_classes, num_ignored, layout):
    chance = np.random.default_rng(num_rows)
    logits, view = leaf_and_view(chance, (num_rows, num_classes), layout)
    labels = chance.integers(num_classes, size=num_rows)
    counted = np.arange(num_rows) >= num_ignored % num_rows
    target = mindspore.Tensor(np.where(counted, labels, -100))
    assert_like_stock(
        lambda _, t: cross_entropy(never, view(t), target),
        lambda t: stock["cross_entropy"](view(t), target),
        logits,
        atol=5e-6,  # MindSpore's logarithms are that far off
    )
    exact = view(logits).asnumpy().astype(np.float64)
    losses = np.log(np.exp(exact).sum(-1)) - exact[np.arange(num_rows), labels]
    mine = cross_entropy(never, view(logits), target).asnumpy()
    np.testing.assert_allclose(mine, losses[counted].mean(), rtol=5e-7, atol=2e-7)


STOCK_OF_NOTHING = [0, np.nan]  # MindSpore 2.10's, and 2.7's


def test_cross_entropy_of_no_row_that_counts(stock):
    logits, nothing = tensor(np.random.default_rng(0), 3, 4), mindspore.Tensor([-100] * 3)
    for function, gradients in ((stock["cross_entropy"], STOCK_OF_NOTHING), (partial(cross_entropy, never), [0])):
        loss, gradient = mindspore.value_and_grad(lambda t, f=function: f(t, nothing))(logits)
        assert np.isnan(loss.asnumpy())
        assert any(np.array_equal(gradient.asnumpy(), np.full((3, 4), value), equal_nan=True) for value in gradients)
