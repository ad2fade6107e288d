"""Which optimizers may step slices: found by a trial, so that users' own are judged by what they do."""

import mindnlp_dp_plugin  # isort: skip  # noqa: F401

import re

import numpy as np
import pytest
from mindnlp.core import nn, ops
from mindnlp.core.optim import SGD, Adam, AdamW, Optimizer

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.optim.elementwise import require_elementwise


class Lamb(Adam):
    """Steps by the ratio of the norms of parameter and step."""

    def step(self):
        before = [parameter.copy() for group in self.param_groups for parameter in group["params"]]
        super().step()
        after = [parameter for group in self.param_groups for parameter in group["params"]]
        for old, new in zip(before, after):
            step = new - old
            ops.assign(new, old + self.param_groups[0]["lr"] * step * old.norm() / step.norm())


class Adafactor(Optimizer):
    """Keeps means of squares of rows and columns."""

    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr))

    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                squares = parameter.grad**2
                rows, columns = squares.mean(-1, keep_dims=True), squares.mean(0, keep_dims=True)
                size = (rows * columns / squares.mean()) ** 0.5
                ops.assign(parameter, parameter - group["lr"] * parameter.grad / size)


class Lars(SGD):
    """Steps a matrix by its norm, a vector as SGD does."""

    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                scale = parameter.norm() / parameter.grad.norm() if parameter.ndim > 1 else 1.0
                ops.assign(parameter, parameter - group["lr"] * scale * parameter.grad)


def groups():
    return [{"params": [nn.Parameter(ops.ones(3))], "lr": 0.0}, {"params": [nn.Parameter(ops.ones(2, 2))]}]


@pytest.mark.parametrize(
    "options",
    [
        (AdamW, {}),
        (AdamW, {"amsgrad": True, "weight_decay": 0.5}),
        (Adam, {"weight_decay": 0.1}),
        (SGD, {"momentum": 0.9, "nesterov": True}),
        (SGD, {"momentum": 0.9, "weight_decay": 0.1}),
    ],
    ids=str,
)
def test_elementwise_optimizers_pass_and_are_left_alone(options):
    make, options = options
    optimizer = make(groups(), lr=1e-3, **options)
    require_elementwise(optimizer)
    assert not optimizer.state and [len(group["params"]) for group in optimizer.param_groups] == [1, 1]
    assert [group["lr"] for group in optimizer.param_groups] == [0.0, 1e-3]
    np.testing.assert_array_equal(optimizer.param_groups[0]["params"][0].asnumpy(), np.ones(3))


@pytest.mark.parametrize("make", [Lamb, Adafactor, Lars])
def test_others_are_refused_by_name(make):
    with pytest.raises(DataParallelError, match=re.escape(f"the states of {make.__name__}: ")):
        require_elementwise(make(groups(), lr=1e-3))
