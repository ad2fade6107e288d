"""A bucket is filled by one backward between prepare() and finish(), or not at all."""

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore
import numpy as np
import pytest
from mindnlp.core import nn
from mindnlp.core.autograd import value_and_grad

from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.ddp import GradientReducer

dp.install()
ROWS = mindspore.Tensor(np.ones((4, 3), np.float32))


@pytest.fixture
def model():
    return nn.Linear(3, 2)


def stepping(model):
    return value_and_grad(lambda: (model(ROWS) ** 2).mean(), tuple(model.parameters()))


def gradients(model):
    return [parameter.grad.asnumpy().copy() for parameter in model.parameters()]


def test_a_slot_is_never_filled_twice(model):
    step, reducer = stepping(model), GradientReducer(model.parameters(), current())
    reducer.prepare()
    step()
    with pytest.raises(dp.DataParallelError, match="parameter . of 2, of shape .*has got a second gradient"):
        step()
    reducer.close()


def test_backward_passes_at_other_times_fill_nothing(model):
    step = stepping(model)
    step()
    alone = gradients(model)
    model.zero_grad()
    reducer = GradientReducer(model.parameters(), current())
    mindspore.value_and_grad(lambda: model(ROWS).sum(), None, tuple(model.parameters()))()
    reducer.prepare()
    step()
    reducer.finish()
    mindspore.value_and_grad(lambda: model(ROWS).sum(), None, tuple(model.parameters()))()
    reducer.close()
    for found, expected in zip(gradients(model), alone):
        np.testing.assert_array_equal(found, expected)


def test_parameters_that_come_and_go_are_followed(model):
    weight, bias = model.parameters()
    reducer = GradientReducer([bias], current())
    for followed in ([weight, bias], [weight]):
        reducer.follow(followed)
        model.zero_grad()
        reducer.prepare()
        stepping(model)()
        reducer.finish()
        assert [reducer.averaged.has(parameter) for parameter in (weight, bias)] == [True, len(followed) == 2]
    reducer.close()


def test_gradients_that_take_the_place_of_averaged_ones_are_seen(model):
    weight, bias = model.parameters()
    reducer = GradientReducer([weight, bias], current())
    reducer.prepare()
    stepping(model)()
    reducer.finish()
    assert reducer.averaged.replaced() == []
    weight.grad = other = weight.grad * 2
    (found,) = reducer.averaged.replaced()
    assert found is other
    reducer.close()
