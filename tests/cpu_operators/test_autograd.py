"""What MindSpore and the optimizer do with gradients: write to them, differentiate them, leave some out."""

import itertools
from functools import partial

import mindspore
import numpy as np
import pytest
from mindnlp.core import nn, optim
from packaging.version import Version

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.cpu_operators.activations import gelu, silu
from mindnlp_dp_plugin.cpu_operators.add import add
from mindnlp_dp_plugin.cpu_operators.clip_grad_norm import clip_grad_norm_
from mindnlp_dp_plugin.cpu_operators.cross_entropy import cross_entropy
from mindnlp_dp_plugin.cpu_operators.divide import divide
from mindnlp_dp_plugin.cpu_operators.embedding import embedding
from mindnlp_dp_plugin.cpu_operators.gather import gather
from mindnlp_dp_plugin.cpu_operators.layer_norm import layer_norm
from mindnlp_dp_plugin.cpu_operators.linear import linear
from mindnlp_dp_plugin.cpu_operators.masked_fill import where
from mindnlp_dp_plugin.cpu_operators.matmul import matmul
from mindnlp_dp_plugin.cpu_operators.mean import mean
from mindnlp_dp_plugin.cpu_operators.multiply import multiply
from mindnlp_dp_plugin.cpu_operators.rotary import rotate, rotate_half
from mindnlp_dp_plugin.cpu_operators.softmax import softmax
from mindnlp_dp_plugin.cpu_operators.square import power
from mindnlp_dp_plugin.cpu_operators.view import contiguous
from mindnlp_dp_plugin.ddp.host_memory import are_views
from tests.cpu_operators.compared import never, tensor


@pytest.mark.parametrize("operator", [add, multiply])
@pytest.mark.parametrize("shapes", [((4, 3), (3,)), ((3,), (4, 3)), ((64,), (1,)), ((4, 1), (1, 3)), ((2, 4, 3), (3,))])
def test_gradients_can_be_written_to(operator, shapes):
    """MindSpore refuses to assign to a view."""
    parameters = [nn.Parameter(tensor(np.random.default_rng(0), *shape)) for shape in shapes]
    for gradient in mindspore.grad(lambda a, b: (operator(never, a, b) ** 2).sum(), (0, 1))(*parameters):
        mindspore.ops.assign(gradient, gradient * 2)


@pytest.mark.parametrize("max_norm", [1e-3, 1.0, 1e6])
def test_clipping(stock, max_norm):
    gradients = [tensor(np.random.default_rng(0), *shape) for shape in ((4, 3), (3,), (100, 300))]
    clipped = {}
    for name, clip in (("mine", partial(clip_grad_norm_, never)), ("theirs", stock["clip_grad_norm_"])):
        parameters = [nn.Parameter(mindspore.ops.zeros_like(gradient)) for gradient in gradients]
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient.copy()
        held = parameters[0].grad
        clipped[name] = [clip(parameters, max_norm), *(parameter.grad for parameter in parameters)]
        np.testing.assert_array_equal(held.asnumpy(), parameters[0].grad.asnumpy())  # written to in place
    for mine, theirs in zip(*clipped.values(), strict=True):
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), rtol=1e-5)


def test_clipping_of_any_shape():
    """MindNLP's own fails for gradients of no axis, of three axes, and for views."""
    chance = np.random.default_rng(0)
    gradients = [tensor(chance), tensor(chance, 2, 3, 4), tensor(chance, 3, 2).T, tensor(chance, 4)[1:]]
    parameters = [nn.Parameter(mindspore.Tensor(np.zeros(gradient.shape, np.float32))) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    expected = sum((gradient.asnumpy().astype(np.float64) ** 2).sum() for gradient in gradients) ** 0.5
    np.testing.assert_allclose(clip_grad_norm_(never, parameters, 1e-3).asnumpy(), expected, rtol=1e-6)
    squares = sum(float((parameter.grad.asnumpy() ** 2).sum()) for parameter in parameters)
    np.testing.assert_allclose(squares**0.5, 1e-3, rtol=1e-4)
    assert [parameter.grad.shape for parameter in parameters] == [parameter.shape for parameter in parameters]


def test_clipping_of_gradients_that_share_memory():
    """MindSpore gives both terms of a sum the same memory."""
    terms = [nn.Parameter(mindspore.ops.ones((3, 4), mindspore.float32)) for _ in range(2)]
    for term, gradient in zip(terms, mindspore.grad(lambda a, b: ((a + b) ** 2).sum(), (0, 1))(*terms)):
        term.grad = gradient
    assert terms[0].grad.data_ptr() == terms[1].grad.data_ptr()
    clip_grad_norm_(never, terms, 1e-3)
    for term in terms:
        np.testing.assert_allclose(term.grad.asnumpy(), 1e-3 / 24**0.5, rtol=1e-5)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_clipping_of_gradients_that_are_parts_of_another(order):
    """So MindSpore makes those of what is joined, where the joined is a term of a sum."""
    parameters = [nn.Parameter(mindspore.ops.ones(size, mindspore.float32)) for size in (2, 2, 4)]
    gradients = mindspore.grad(lambda a, b, c: (mindspore.ops.cat([a, b]) + c).sum(), (0, 1, 2))(*parameters)
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    clip_grad_norm_(never, [parameters[index] for index in order], 1e-3)
    for parameter in parameters:
        np.testing.assert_allclose(parameter.grad.asnumpy(), 1e-3 / 8**0.5, rtol=1e-5)


@pytest.mark.parametrize("operator", ["gather", "embedding"])
def test_places_that_are_written_to_before_backward(stock, operator):
    if operator == "embedding" and not are_views():
        pytest.skip("on MindSpore 2.7 embeddings are MindNLP's own, which go wrong")
    table = tensor(np.random.default_rng(0), 2, 3)

    def picked(table, places):
        return gather(never, table, -1, places) if operator == "gather" else embedding(stock[operator], places, table)

    def gradient(writes):
        places = mindspore.Tensor([[0, 1], [1, 0]])

        def squares(table):
            result = (picked(table, places) ** 2).sum()
            if writes:
                mindspore.ops.assign(places, mindspore.Tensor([[1, 1], [1, 1]]))
            return result

        return mindspore.grad(squares)(table).asnumpy()

    np.testing.assert_array_equal(gradient(writes=True), gradient(writes=False))


@pytest.mark.parametrize("optimizer", [optim.AdamW, optim.SGD])
def test_a_parameter_of_no_axis_trains(optimizer):
    scale = nn.Parameter(mindspore.Tensor(np.float32(2)))
    scale.grad = mindspore.grad(lambda t: t * t)(scale)
    clip_grad_norm_(never, [scale], 1.0)
    optimizer([scale], lr=0.1).step()
    assert scale.shape == () and 1.8 < scale.asnumpy() < 1.95


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_clipping_of_what_is_not_finite(stock, number):
    for clip in (partial(clip_grad_norm_, never), stock["clip_grad_norm_"]):
        parameter = nn.Parameter(mindspore.Tensor([0.0, 0.0]))
        parameter.grad = mindspore.Tensor(np.array([1, number], np.float32))
        np.testing.assert_equal(clip([parameter], 1.0).asnumpy(), np.float32(number))
        np.testing.assert_equal(parameter.grad.asnumpy(), np.float32([0 if np.isinf(number) else 1, np.nan]))


def test_frozen_weights_get_no_gradient(stock):
    chance = np.random.default_rng(0)
    inputs, weight, bias = tensor(chance, 5, 3), tensor(chance, 4, 3), tensor(chance, 4)
    for number, of in enumerate((inputs, weight, bias)):
        mine, theirs = (
            mindspore.grad(lambda *t, operator=operator: operator(*t).sum(), number)(inputs, weight, bias)
            for operator in (lambda *t: linear(never, *t), stock["linear"])
        )
        assert mine.shape == of.shape
        np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), rtol=1e-5)


@pytest.mark.parametrize("written", [0, 1])
@pytest.mark.parametrize("operator, shapes", [(linear, ((5, 3), (4, 3))), (matmul, ((2, 5, 3), (2, 3, 4)))])
def test_writing_to_an_input_before_backward_raises(stock, operator, shapes, written):
    chance = np.random.default_rng(0)
    leaves = [tensor(chance, *shape) for shape in shapes]

    def gradients(way, writes):
        def result_of(*leaves):
            inputs = [leaf * 1 for leaf in leaves]
            result = way(*inputs)
            if writes:
                inputs[written].copy_(inputs[written] + 1)
            return (result**2).sum()

        return [gradient.asnumpy() for gradient in mindspore.grad(result_of, (0, 1))(*leaves)]

    mine, theirs = partial(operator, never), stock[operator.__name__]
    with pytest.raises(RuntimeError, match="modified by (an )?inplace op"):
        gradients(theirs, writes=True)
    if Version(mindspore.__version__) >= Version("2.8"):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            gradients(mine, writes=True)
    else:  # MindSpore 2.7 does not watch what functions like ours save: they saved it before it was written to
        np.testing.assert_equal(gradients(mine, writes=True), gradients(mine, writes=False))


@pytest.mark.skipif(Version(mindspore.__version__) < Version("2.8"), reason="2.7 saves it before it is written to")
def test_writing_to_logits_before_backward_raises():
    logits, labels = tensor(np.random.default_rng(0), 5, 3), mindspore.Tensor([0, 1, 2, 0, 1])

    def loss_of(leaf):
        written = leaf * 1
        loss = cross_entropy(never, written, labels)
        written.copy_(written + 1)
        return loss

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        mindspore.grad(loss_of)(logits)


@pytest.mark.skipif(Version(mindspore.__version__) < Version("2.8"), reason="2.7 saves it before it is written to")
def test_writing_to_what_softmax_gave_before_backward_raises():
    def sum_of(leaf):
        shares = softmax(never, leaf)
        total = shares.sum()  # whose gradient does not need them
        shares.copy_(shares + 1)
        return total

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        mindspore.grad(sum_of)(tensor(np.random.default_rng(0), 5, 3))


def second_derivatives(operator, *leaves):
    """Of a function of the first derivatives, as a gradient penalty is."""
    places = tuple(range(len(leaves)))

    def penalty(*leaves):
        gradients = mindspore.grad(lambda *t: (operator(*t) ** 3).sum(), places)(*leaves)
        return sum((gradient**2).sum() for gradient in (gradients if isinstance(gradients, tuple) else (gradients,)))

    gradients = mindspore.grad(penalty, places)(*leaves)
    return gradients if isinstance(gradients, tuple) else (gradients,)


def its_own(places, table, *_):
    """Of embeddings: on MindSpore 2.7 the plugin leaves them to MindNLP."""
    return mindspore.ops.gather(table, places, 0)


COS, SIN = np.random.default_rng(1).standard_normal((2, 2, 1, 5, 4)).astype(np.float32)  # a row for each token
TABLES = [mindspore.Tensor(table[:, 0]) for table in (COS, SIN)]

# The operator, the same in NumPy, its gradients from the gradient of the result, the inputs' shapes.
TWICE_DIFFERENTIABLE = {
    "linear": (
        lambda *t: linear(never, *t),
        lambda a, b, c: a @ b.T + c,
        lambda g, a, b, c: (g @ b, np.einsum("bso,bsi->oi", g, a), g.sum((0, 1))),
        ((2, 5, 3), (4, 3), (4,)),
    ),
    "linear without a bias": (
        lambda *t: linear(never, *t),
        lambda a, b: a @ b.T,
        lambda g, a, b: (g @ b, np.einsum("bso,bsi->oi", g, a)),
        ((2, 5, 3), (4, 3)),
    ),
    "matmul": (
        lambda *t: matmul(never, *t),
        lambda a, b: a @ b,
        lambda g, a, b: (g @ b.swapaxes(1, 2), a.swapaxes(1, 2) @ g),
        ((2, 5, 3), (2, 3, 4)),
    ),
    "add": (lambda *t: add(never, *t), lambda a, b: a + b, lambda g, a, b: (g, g.sum((0, 1))), ((2, 5, 3), (3,))),
    "rows by a matrix": (
        lambda *t: matmul(never, *t),
        lambda a, b: a @ b,
        lambda g, a, b: (g @ b.T, np.einsum("bsi,bso->io", a, g)),
        ((2, 5, 3), (3, 4)),
    ),
    "multiply": (
        lambda *t: multiply(never, *t),
        lambda a, b: a * b,
        lambda g, a, b: (g * b, (g * a).sum((0, 1))),
        ((2, 5, 3), (3,)),
    ),
    "rotate_half": (
        lambda t: rotate_half(never, t),
        lambda a: np.concatenate((-a[..., 2:], a[..., :2]), -1),
        lambda g, a: (np.concatenate((g[..., 2:], -g[..., :2]), -1),),
        ((2, 5, 4),),
    ),
    "rotate": (
        lambda t: rotate(never, t, t, *TABLES)[0],
        lambda a: a * COS + np.concatenate((-a[..., 2:], a[..., :2]), -1) * SIN,
        lambda g, a: (g * COS + np.concatenate(((g * SIN)[..., 2:], -(g * SIN)[..., :2]), -1),),
        ((2, 3, 5, 4),),
    ),
    "embedding": (
        lambda t: embedding(its_own, mindspore.Tensor([[1, 0, 1]]), t),
        lambda a: a[[[1, 0, 1]]],
        lambda g, a: (np.stack([g[0, 1], g[0, 0] + g[0, 2], 0 * g[0, 0]]),),
        ((3, 5),),
    ),
    "square": (lambda t: power(never, t, 2), lambda a: a**2, lambda g, a: (2 * a * g,), ((2, 5, 3),)),
    "mean": (
        lambda t: mean(never, t, -1),
        lambda a: a.mean(-1),
        lambda g, a: (np.repeat(g[..., None] / 3, 3, -1),),
        ((2, 5, 3),),
    ),
    "masked_fill": (
        lambda t, v: where(never, mindspore.Tensor([True, False, True]), t, v),
        lambda a, v: np.where([True, False, True], a, v),
        lambda g, a, v: (np.where([True, False, True], g, 0), g[..., 1].sum()),
        ((2, 5, 3), ()),
    ),
    "contiguous": (
        lambda t: contiguous(never, t.swapaxes(0, 1)),
        lambda a: a.swapaxes(0, 1),
        lambda g, a: (g.swapaxes(0, 1),),
        ((2, 5, 3),),
    ),
    "divide": (lambda t: divide(never, t, 3), lambda a: a / 3, lambda g, a: (g / 3,), ((2, 5, 3),)),
}


@pytest.mark.parametrize("case", TWICE_DIFFERENTIABLE.values(), ids=TWICE_DIFFERENTIABLE)
def test_gradients_of_gradients(case):
    """Against differences in float64: of ``@``, MindSpore's own gradients of gradients are wrong."""
    operator, exact, gradients_of, shapes = case
    chance = np.random.default_rng(0)
    leaves, directions = ([tensor(chance, *shape) for shape in shapes] for _ in range(2))

    def penalty(distance):
        inputs = [a.asnumpy() + distance * b.asnumpy().astype(np.float64) for a, b in zip(leaves, directions)]
        return sum((gradient**2).sum() for gradient in gradients_of(3 * exact(*inputs) ** 2, *inputs))

    expected = (penalty(1e-6) - penalty(-1e-6)) / 2e-6
    found = second_derivatives(operator, *leaves)
    along = sum((a.asnumpy() * b.asnumpy()).sum(dtype=np.float64) for a, b in zip(found, directions, strict=True))
    np.testing.assert_allclose(along, expected, rtol=1e-5)


FUSED = {
    "softmax": lambda t: softmax(never, t),
    "gelu": lambda t: gelu(never, t),
    "silu": lambda t: silu(never, t),
    "layer_norm": lambda t: layer_norm(never, t, (3,), mindspore.ops.ones(3), mindspore.ops.ones(3)),
    "cross_entropy": lambda t: cross_entropy(never, t, mindspore.Tensor([0, 1])),
}


@pytest.mark.parametrize("operator", FUSED.values(), ids=FUSED)
def test_no_silent_zeros_for_gradients_of_gradients(operator):
    rows = tensor(np.random.default_rng(0), 2, 3)
    with pytest.raises(dp.DataParallelError, match="MINDNLP_DP_CPU_OPERATORS=0"):
        second_derivatives(operator, rows)


@pytest.mark.parametrize("operator", FUSED.values(), ids=FUSED)
def test_a_gradient_within_what_is_differentiated(operator):
    """As virtual adversarial training takes it: the perturbation itself is a constant."""
    rows = tensor(np.random.default_rng(0), 2, 3)

    def loss(t):
        direction = mindspore.ops.stop_gradient(mindspore.grad(lambda u: operator(u).sum())(t))
        return (t * direction).sum()

    alone = mindspore.grad(lambda u: operator(u).sum())(rows)
    np.testing.assert_array_equal(mindspore.grad(loss)(rows).asnumpy(), alone.asnumpy())
