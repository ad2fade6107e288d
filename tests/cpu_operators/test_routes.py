"""Which tensors and forms the operators take, and that all others go MindNLP's way."""

import mindspore
import numpy as np
import pytest

from mindnlp_dp_plugin.cpu_operators.add import add
from mindnlp_dp_plugin.cpu_operators.cross_entropy import cross_entropy
from mindnlp_dp_plugin.cpu_operators.divide import divide
from mindnlp_dp_plugin.cpu_operators.gelu import gelu
from mindnlp_dp_plugin.cpu_operators.layer_norm import layer_norm
from mindnlp_dp_plugin.cpu_operators.linear import linear
from mindnlp_dp_plugin.cpu_operators.matmul import matmul
from mindnlp_dp_plugin.cpu_operators.routes import route, routes
from mindnlp_dp_plugin.cpu_operators.softmax import softmax
from mindnlp_dp_plugin.patching import Replacements

HALF, INT = np.float16, np.int32


def ones(shape, dtype=np.float32):
    return mindspore.Tensor(np.ones(shape, dtype))


def its_own(*_, **__):
    return "stock"


OTHERS = [
    (linear, ones((3, 4), HALF), ones((5, 4), HALF)),
    (linear, ones((3, 4)), ones((4,))),
    (linear, ones((0, 4)), ones((5, 4))),
    (linear, ones((3, 4)), ones((5, 4)), ones((1, 5))),
    (linear, ones((3, 4)), ones((5, 3))),
    (gelu, ones((3, 4), HALF)),
    (gelu, ones((3, 4), np.float64)),
    (gelu, ones((2, 3)), "tanh"),
    (gelu, ones(())),
    (gelu, ones((0, 3))),
    (matmul, ones((2, 3, 4), HALF), ones((2, 4, 5), HALF)),
    (matmul, ones((2, 3)), ones((3, 2))),
    (matmul, ones((2, 4, 3)), ones((3, 2))),
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
    (divide, ones((2, 3), HALF), 2.0),
    (divide, ones((2, 3), INT), 2),
    (divide, ones(()), 2.0),
    (add, ones((2, 3)), ones((2, 3))),
    (add, ones((2, 3)), 1.0),
    (add, ones((2, 3)), ones(())),
    (add, ones((2, 3)), ones((3,), HALF)),
    (add, ones((0, 3)), ones((3,))),
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


def test_routed_and_taken_back(stock):
    replacements = Replacements()
    route(replacements)
    for owner, name, _ in routes():
        assert getattr(owner, name).__wrapped__ is stock[name]
    replacements.undo()
    for owner, name, _ in routes():
        assert getattr(owner, name) is stock[name]
