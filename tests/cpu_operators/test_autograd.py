"""What MindSpore and the optimizer do with gradients: write to them, differentiate them, leave some away."""

import mindspore
import numpy as np
import pytest
from mindnlp.core import nn

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.cpu_operators.add import add
from mindnlp_dp_plugin.cpu_operators.cross_entropy import cross_entropy
from mindnlp_dp_plugin.cpu_operators.divide import divide
from mindnlp_dp_plugin.cpu_operators.gelu import gelu
from mindnlp_dp_plugin.cpu_operators.layer_norm import layer_norm
from mindnlp_dp_plugin.cpu_operators.linear import linear
from mindnlp_dp_plugin.cpu_operators.matmul import matmul
from mindnlp_dp_plugin.cpu_operators.softmax import softmax
from tests.cpu_operators.compared import never, tensor


@pytest.mark.parametrize("shapes", [((4, 3), (3,)), ((3,), (4, 3)), ((64,), (1,)), ((4, 1), (1, 3))])
def test_gradients_of_a_bias_can_be_clipped(shapes):
    """MindSpore refuses to write to a view, and clipping writes to gradients."""
    parameters = [nn.Parameter(tensor(np.random.default_rng(0), *shape)) for shape in shapes]
    gradients = mindspore.grad(lambda a, b: (add(never, a, b) ** 2).sum(), (0, 1))(*parameters)
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    nn.utils.clip_grad_norm_(parameters, 1e-3)
    squares = sum(float((parameter.grad.asnumpy() ** 2).sum()) for parameter in parameters)
    np.testing.assert_allclose(squares**0.5, 1e-3, rtol=1e-4)


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
    for way in (lambda *t: operator(never, *t), stock[operator.__name__]):

        def write_after(*leaves, way=way):
            inputs = [leaf * 1 for leaf in leaves]
            result = way(*inputs)
            inputs[written].copy_(inputs[written] + 1)
            return (result**2).sum()

        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            mindspore.grad(write_after, (0, 1))(*leaves)[0].asnumpy()


def second_derivatives(operator, *leaves):
    """Of a function of the first derivatives, as a gradient penalty is."""
    places = tuple(range(len(leaves)))

    def penalty(*leaves):
        gradients = mindspore.grad(lambda *t: (operator(*t) ** 3).sum(), places)(*leaves)
        return sum((gradient**2).sum() for gradient in (gradients if isinstance(gradients, tuple) else (gradients,)))

    gradients = mindspore.grad(penalty, places)(*leaves)
    return gradients if isinstance(gradients, tuple) else (gradients,)


# The operator, the same in NumPy, its gradients from the gradient of the result, the inputs' shapes.
TWICE_DIFFERENTIABLE = {
    "linear": (
        lambda *t: linear(never, *t),
        lambda a, b, c: a @ b.T + c,
        lambda g, a, b, c: (g @ b, np.einsum("bso,bsi->oi", g, a), g.sum((0, 1))),
        ((2, 5, 3), (4, 3), (4,)),
    ),
    "matmul": (
        lambda *t: matmul(never, *t),
        lambda a, b: a @ b,
        lambda g, a, b: (g @ b.swapaxes(1, 2), a.swapaxes(1, 2) @ g),
        ((2, 5, 3), (2, 3, 4)),
    ),
    "add": (lambda *t: add(never, *t), lambda a, b: a + b, lambda g, a, b: (g, g.sum((0, 1))), ((2, 5, 3), (3,))),
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
