"""Which tensors and forms the operators take, and that all others go MindNLP's way."""

import importlib

import mindspore
import numpy as np
import pytest
from mindnlp.core import ops

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin.cpu_operators.activations import gelu, silu
from mindnlp_dp_plugin.cpu_operators.add import add
from mindnlp_dp_plugin.cpu_operators.cross_entropy import cross_entropy
from mindnlp_dp_plugin.cpu_operators.divide import divide
from mindnlp_dp_plugin.cpu_operators.embedding import embedding
from mindnlp_dp_plugin.cpu_operators.gather import gather
from mindnlp_dp_plugin.cpu_operators.layer_norm import layer_norm
from mindnlp_dp_plugin.cpu_operators.linear import linear
from mindnlp_dp_plugin.cpu_operators.matmul import matmul
from mindnlp_dp_plugin.cpu_operators.mean import mean
from mindnlp_dp_plugin.cpu_operators.multiply import multiply
from mindnlp_dp_plugin.cpu_operators.rotary import rotate, rotate_by_places, rotate_half
from mindnlp_dp_plugin.cpu_operators.routes import ROTARY, route, routes
from mindnlp_dp_plugin.cpu_operators.softmax import softmax
from mindnlp_dp_plugin.cpu_operators.square import power
from mindnlp_dp_plugin.patching import Patches
from tests.cpu_operators.compared import never, tensor

HALF, INT = np.float16, np.int32
NAME = "apply_rotary_pos_emb"


def ones(shape, dtype=np.float32):
    return mindspore.Tensor(np.ones(shape, dtype))


def its_own(*_, **__):
    return "stock"


OTHERS = [
    (linear, ones((3, 4), HALF), ones((5, 4))),
    (linear, ones((3, 4)), ones((4,))),
    (linear, ones((0, 4)), ones((5, 4))),
    (linear, ones((3, 4)), ones((5, 4)), ones((1, 5))),
    (linear, ones((3, 4)), ones((5, 3))),
    (gelu, ones((3, 4), np.float64)),
    (gelu, ones((2, 3)), "sigmoid"),
    (gelu, ones(())),
    (gelu, ones((0, 3))),
    (matmul, ones((2, 3, 4), HALF), ones((2, 4, 5))),
    (matmul, ones((3,)), ones((3, 2))),
    (matmul, ones((2, 3)), ones((3,))),
    (matmul, ones((2, 4, 3)), ones((4, 2))),
    (matmul, ones((2, 4, 3)), ones((1, 3, 2))),
    (matmul, ones((2, 4, 3)), ones((2, 4, 2))),
    (softmax, ones((3, 4), HALF)),
    (softmax, ones((2, 3)), 0),
    (softmax, ones(()), -1),
    (softmax, ones((3, 0)), -1),
    (layer_norm, ones((2, 3)), (3,)),
    (layer_norm, ones((2, 3)), (2, 3), ones((2, 3)), ones((2, 3))),
    (layer_norm, ones((0, 3)), (3,), ones(3), ones(3)),
    (divide, ones((2, 3)), ones((2, 3))),
    (divide, ones((2, 3)), ones((), HALF)),
    (gather, ones((2, 3), HALF), -1, ones((2, 1), INT)),
    (gather, ones((2, 3)), 0, ones((1, 3), INT)),
    (gather, ones((2, 3)), -1, ones((1, 2), INT)),
    (gather, ones((2, 3)), -1, ones((2, 1), INT) * 3),
    (divide, ones((2, 3), HALF), 2.0),
    (divide, ones((2, 3), INT), 2),
    (divide, ones(()), 2.0),
    (add, ones((2, 3)), ones((2, 3))),
    (add, ones((2, 3)), 1.0),
    (add, ones((2, 3)), ones(())),
    (add, ones((2, 3)), ones((3,), HALF)),
    (add, ones((0, 3)), ones((3,))),
    (multiply, ones((2, 3)), ones((2, 3))),
    (multiply, ones((2, 3)), 1.0),
    (multiply, ones((2, 3)), ones(())),
    (multiply, ones((2, 3)), ones((4,))),
    (multiply, ones((0, 3)), ones((3,))),
    (embedding, ones((2, 3), INT), ones((1, 4))),
    (embedding, ones((2, 3), INT) * -1, ones((2, 4))),
    (embedding, ones((2, 3), INT), ones((2, 4), HALF)),
    (embedding, ones((2, 3), INT), ones((2, 4)), None, 1.0),
    (embedding, ones((0, 3), INT), ones((2, 4))),
    (silu, ones((2, 3), INT)),
    (power, ones((2, 3)), 3),
    (power, ones((2, 3)), ones((2, 3))),
    (power, ones((2, 3), HALF), 2),
    (mean, ones((2, 3)), None),
    (mean, ones((2, 3)), 0),
    (mean, ones((2, 3), HALF), -1),
    (rotate, *[ones((1, 2, 3, 4), HALF)] * 2, *[ones((1, 3, 4))] * 2),
    (rotate, *[ones((1, 2, 3, 6))] * 2, *[ones((1, 3, 4))] * 2),
    (rotate, *[ones((1, 2, 3, 3))] * 2, *[ones((1, 3, 3))] * 2),
    (rotate_by_places, *[ones((1, 2, 3, 4))] * 2, *[ones((3, 4))] * 2, ones((1, 3), INT) * 3),
    (rotate_by_places, *[ones((1, 2, 3, 4))] * 2, *[ones((3, 4))] * 2, ones((1, 3), INT) * -1),
    (rotate_by_places, *[ones((1, 2, 3, 4))] * 2, *[ones((3, 4))] * 2, None),
    (rotate_half, ones((2, 4), HALF)),
    (rotate_half, ones((2, 3))),
    (cross_entropy, ones((2, 3), HALF), ones((2,), INT)),
    (cross_entropy, ones((2, 3)), ones((2,), INT), ones((3,))),
    (cross_entropy, ones((2, 3)), ones((2,), INT), None, -100, "sum"),
    (cross_entropy, ones((2, 3)), ones((2,), INT), None, -100, "mean", 0.1),
    (cross_entropy, ones((2, 3)), ones((2, 3))),
    (cross_entropy, ones((2, 3, 2)), ones((2, 2), INT)),
    (cross_entropy, ones((0, 3)), ones((0,), INT)),
]


@pytest.mark.parametrize("operator, arguments", [(operator, arguments) for operator, *arguments in OTHERS])
def test_others_go_the_way_they_went(operator, arguments):
    assert operator(its_own, *arguments) == "stock"


def test_softmax_to_another_dtype_goes_the_way_it_went():
    assert softmax(its_own, ones((2, 3)), -1, dtype=mindspore.float16) == "stock"


def test_operators_are_called_by_the_names_of_mindnlp_s_arguments(stock):
    patches = Patches()
    route(patches, lambda *_: None)
    try:
        squares = ops.pow(input=ones((2, 3)), exponent=2)
    finally:
        patches.undo()
    np.testing.assert_array_equal(squares.asnumpy(), np.ones((2, 3)))


def test_places_from_the_end_go_the_way_they_went():
    assert gather(its_own, ones((2, 3)), -1, mindspore.Tensor([[-1], [0]])) == "stock"


def test_routed_and_taken_back(stock):
    before = [getattr(owner, name) for owner, name, _ in routes()]
    patches = Patches()
    route(patches, lambda *_: None)
    for (owner, name, _), own in zip(routes(), before):
        assert getattr(owner, name).__wrapped__ is own
    patches.undo()
    assert before == [getattr(owner, name) for owner, name, _ in routes()]


def model(name):
    return importlib.import_module(f"mindnlp.transformers.models.{name}.modeling_{name}")


@pytest.mark.parametrize("name", ROTARY["rotate_half", rotate_half])
def test_each_family_turns_the_same_halves(stock, name):
    heads = tensor(np.random.default_rng(0), 2, 3, 8)
    np.testing.assert_array_equal(rotate_half(never, heads).asnumpy(), model(name).rotate_half(heads).asnumpy())


@pytest.mark.parametrize(
    "rotated, name", [(rotated, name) for rotated in (rotate, rotate_by_places) for name in ROTARY[NAME, rotated]]
)
def test_each_family_rotates_alike(stock, rotated, name):
    chance = np.random.default_rng(0)
    heads = [tensor(chance, 2, 5, number, 8).swapaxes(1, 2) for number in (4, 2)]
    places = mindspore.Tensor(chance.integers(0, 9, (2, 5)))
    tables = [tensor(chance, *((2, 5) if rotated is rotate else (9,)), 8) for _ in range(2)]
    mine = rotated(never, *heads, *tables, places)
    for one, other in zip(mine, model(name).apply_rotary_pos_emb(*heads, *tables, places), strict=True):
        np.testing.assert_allclose(one.asnumpy(), other.asnumpy(), rtol=0, atol=1e-6)


def test_models_are_routed():
    from mindnlp.transformers.models.deberta_v2.modeling_deberta_v2 import XSoftmax
    from mindnlp.transformers.models.llama import modeling_llama

    dp.install()
    assert modeling_llama.apply_rotary_pos_emb.__wrapped__ and XSoftmax.__call__.__wrapped__
    dp.uninstall()
    assert not hasattr(modeling_llama.apply_rotary_pos_emb, "__wrapped__") and "__call__" not in vars(XSoftmax)
