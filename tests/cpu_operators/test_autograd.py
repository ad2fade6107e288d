"""What MindSpore and the optimizer do with gradients: write to them, differentiate them, leave some out."""

import itertools
from functools import partial
from types import SimpleNamespace

import mindspore
import numpy as np
import pytest
from mindnlp.core import nn, optim
from packaging.version import Version

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.cpu_operators.activations import gelu, silu
from mindnlp_dp_plugin.cpu_operators.add import add
from mindnlp_dp_plugin.cpu_operators.attention import Added, Attention
from mindnlp_dp_plugin.cpu_operators.clip_grad_norm import clip_grad_norm_
from mindnlp_dp_plugin.cpu_operators.cross_entropy import cross_entropy
from mindnlp_dp_plugin.cpu_operators.divide import divide
from mindnlp_dp_plugin.cpu_operators.dropout import dropout
from mindnlp_dp_plugin.cpu_operators.embedding import embedding
from mindnlp_dp_plugin.cpu_operators.gather import gather
from mindnlp_dp_plugin.cpu_operators.layer_norm import layer_norm
from mindnlp_dp_plugin.cpu_operators.linear import linear
from mindnlp_dp_plugin.cpu_operators.masked_fill import where
from mindnlp_dp_plugin.cpu_operators.matmul import matmul
from mindnlp_dp_plugin.cpu_operators.mean import mean
from mindnlp_dp_plugin.cpu_operators.multiply import multiply
from mindnlp_dp_plugin.cpu_operators.rotary import rotate, rotate_half
from mindnlp_dp_plugin.cpu_operators.softmax import masked_softmax, softmax
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


def second_derivatives(power, operator, *leaves):
    """Of a function of the first derivatives, as a gradient penalty is."""
    places = tuple(range(len(leaves)))

    def penalty(*leaves):
        gradients = mindspore.grad(lambda *t: (operator(*t) ** power).sum(), places)(*leaves)
        return sum((gradient**2).sum() for gradient in (gradients if isinstance(gradients, tuple) else (gradients,)))

    gradients = mindspore.grad(penalty, places)(*leaves)
    return gradients if isinstance(gradients, tuple) else (gradients,)


TABLES = [tensor(np.random.default_rng(number), 2, 5, 4) for number in range(2)]
MASK, LABELS = mindspore.Tensor([True, False, True]), mindspore.Tensor([0, 1])
ROWS, STACK, HEADS, SCALAR = (2, 3), (2, 5, 3), (1, 2, 3, 4), ()

# The operator, and the inputs' shapes.
LINEAR = {
    "add": (lambda *t: add(never, *t), STACK, (3,)),
    "rotate_half": (lambda t: rotate_half(never, t), (2, 5, 4)),
    "rotate": (lambda t: rotate(never, t, t, *TABLES)[0], (2, 3, 5, 4)),
    "embedding": (lambda t: embedding(never, mindspore.Tensor([[1, 0, 1]]), t), (3, 5)),
    "gather": (lambda t: gather(never, t, -1, mindspore.Tensor([[0, 1], [1, 0]])), ROWS),
    "mean": (lambda t: mean(never, t, -1), STACK),
    "masked_fill": (lambda t, v: where(never, MASK, t, v), STACK, SCALAR),
    "contiguous": (lambda t: contiguous(never, t.swapaxes(0, 1)), STACK),
    "divide": (lambda t: divide(never, t, 3), STACK),
    "dropout": (lambda t: dropout(never, t), STACK),
}
OTHERS = {
    "linear": (lambda *t: linear(never, *t), STACK, (4, 3), (4,)),
    "linear without a bias": (lambda *t: linear(never, *t), STACK, (4, 3)),
    "matmul": (lambda *t: matmul(never, *t), STACK, (2, 3, 4)),
    "rows by a matrix": (lambda *t: matmul(never, *t), STACK, (3, 4)),
    "multiply": (lambda *t: multiply(never, *t), STACK, (3,)),
    "square": (lambda t: power(never, t, 2), STACK),
    "divide by a scalar": (lambda *t: divide(never, *t), STACK, SCALAR),
    "softmax": (lambda t: softmax(never, t), ROWS),
    "masked softmax": (lambda t: masked_softmax(never, SimpleNamespace(dim=-1), t, MASK), ROWS),
    "gelu": (lambda t: gelu(never, t), ROWS),
    "silu": (lambda t: silu(never, t), ROWS),
    "layer_norm": (lambda *t: layer_norm(never, t[0], (3,), *t[1:]), ROWS, (3,), (3,)),
    "cross_entropy": (lambda t: cross_entropy(never, t, LABELS), ROWS),
    "attention": (lambda *t: Attention.of(*t[:3], (Added(0),), None, t[3]), HEADS, (1, 2, 4, 3), HEADS, (3, 3)),
}


def leaves_of(shapes):
    return [tensor(np.random.default_rng(number), *shape) for number, shape in enumerate(shapes)]


def require_own(name):
    if name == "embedding" and not are_views():
        pytest.skip("on MindSpore 2.7 embeddings are MindNLP's own")


@pytest.mark.parametrize("name", LINEAR | OTHERS)
def test_no_silent_zeros_for_gradients_of_gradients(name):
    require_own(name)
    operator, *shapes = (LINEAR | OTHERS)[name]
    with pytest.raises(dp.DataParallelError, match="MINDNLP_DP_CPU_OPERATORS=0"):
        second_derivatives(3, operator, *leaves_of(shapes))


@pytest.mark.parametrize("name", OTHERS)
def test_no_silent_zeros_where_what_follows_is_linear(name):
    operator, *shapes = OTHERS[name]
    with pytest.raises(dp.DataParallelError, match="MINDNLP_DP_CPU_OPERATORS=0"):
        second_derivatives(1, operator, *leaves_of(shapes))


@pytest.mark.parametrize("name", LINEAR | OTHERS)
def test_a_gradient_within_what_is_differentiated(name):
    """As virtual adversarial training takes it: the perturbation itself is a constant."""
    require_own(name)
    operator, *shapes = (LINEAR | OTHERS)[name]
    first, *others = leaves_of(shapes)

    def gradient_at(t):
        mindspore.set_seed(1)
        return mindspore.grad(lambda u: operator(u, *others).sum())(t)

    found = mindspore.grad(lambda t: (t * mindspore.ops.stop_gradient(gradient_at(t))).sum())(first)
    np.testing.assert_array_equal(found.asnumpy(), gradient_at(first).asnumpy())
