"""Replicas hold each tensor in memory of its own."""

import mindnlp_dp_plugin as dp  # isort: skip

import copy

import mindspore
import numpy as np
from mindnlp.core import nn

from mindnlp_dp_plugin.collectives import current
from mindnlp_dp_plugin.ddp.replicas import make_replicas

dp.install()


class Entangled(nn.Module):
    """Parameters that are views of one tensor, in part or transposed, or the whole of it, or copies of another."""

    def __init__(self):
        super().__init__()
        table = mindspore.Tensor(np.arange(12, dtype=np.float32).reshape(4, 3))
        self.first, self.second, self.turned = (nn.Parameter(part) for part in (table[:2], table[2:], table.T))
        self.whole, self.again, self.flat = (nn.Parameter(part) for part in (table, table, table.reshape(12)))
        self.copied = copy.deepcopy(self.whole)
        self.linear = nn.Linear(3, 4)
        self.twin = copy.deepcopy(self.linear)


def test_no_parameter_is_written_through_another():
    model = Entangled()
    before = [parameter.asnumpy().copy() for parameter in model.parameters()]
    make_replicas(model, current())
    for parameter, values in zip(model.parameters(), before):
        np.testing.assert_array_equal(parameter.asnumpy(), values)
    for number, parameter in enumerate(model.parameters()):
        mindspore.ops.assign(parameter, mindspore.ops.full_like(parameter, number))  # in place, as optimizers do
    for number, (name, parameter) in enumerate(model.named_parameters()):
        assert (parameter.asnumpy() == number).all(), name


def test_what_owns_its_memory_keeps_it():
    model = nn.Linear(3, 4)
    places = [parameter._data_ptr() for parameter in model.parameters()]
    make_replicas(model, current())
    if tuple(map(int, mindspore.__version__.split(".")[:2])) > (2, 7):  # which cannot tell
        assert [parameter._data_ptr() for parameter in model.parameters()] == places
