"""Loops of one's own in which nobody averages: each rank would train a model of its own.

    python trains_apart.py OUTPUT LOOP...

Writes into ``OUTPUT/<LOOP>-<RANK>`` what ended the loop, and whether its parameters have changed.
"""

import json
import os
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindnlp.core import nn, optim
from mindnlp.core.autograd import value_and_grad

from tests.programs import mindspore_loops

RANK = int(os.environ["RANK"])
LOOPS = {}


def loop(function):
    LOOPS[function.__name__] = function
    return function


def rows(seed=RANK):
    chance = np.random.default_rng(seed)
    return [ms.Tensor(chance.standard_normal((4, 3)).astype(np.float32)) for _ in range(3)]


class Sgd(optim.Optimizer):
    """The user's own."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})

    def step(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.assign_value(parameter - 0.1 * parameter.grad)


class Careful(optim.SGD):
    """Steps as its base class does."""

    def step(self, *args, **kwargs):
        return super().step(*args, **kwargs)


def train(model, optimizer, average=lambda parameters: None):
    parameters = tuple(model.parameters())
    step = value_and_grad(lambda batch: (model(batch) ** 2).mean(), parameters, attach_grads=True)
    for batch in rows():
        optimizer.zero_grad()
        step(batch)
        average(parameters)
        optimizer.step()


@loop
def mindnlp_adamw(model):
    train(model, optim.AdamW(model.parameters(), lr=0.1))


@loop
def an_optimizer_of_ones_own(model):
    train(model, Sgd(model.parameters()))


@loop
def with_a_scheduler(model):
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    optim.lr_scheduler.StepLR(optimizer, 1)
    train(model, optimizer)


@loop
def the_loss_alone_is_summed(model):
    from mindspore.communication.comm_func import all_reduce

    train(
        model, optim.SGD(model.parameters(), lr=0.1), lambda parameters: all_reduce(ms.Tensor(np.ones(1, np.float32)))
    )


@loop
def averaged_by_hand(model):
    from mindspore.communication import get_group_size
    from mindspore.communication.comm_func import all_reduce

    def average(parameters):
        for parameter in parameters:
            parameter.grad = all_reduce(parameter.grad) / get_group_size()

    train(model, Careful(model.parameters(), lr=0.1), average)


@loop
def averaged_once_only(model):
    from mindspore.mint.distributed import all_reduce

    turns = iter([True])

    def average(parameters):
        if next(turns, False):
            for parameter in parameters:
                all_reduce(parameter.grad)

    train(model, optim.SGD(model.parameters(), lr=0.1), average)


@loop
def predicts_only(model):
    for batch in rows():
        model(batch).asnumpy()


def mindspore_loop(mode, jit=False, kind=ms.nn.SGD):
    ms.set_context(mode=mode)
    net = ms.nn.Dense(3, 1)
    optimizer = kind(net.trainable_params(), 0.1)

    def loss_of(batch):
        return (net(batch) ** 2).mean()

    grad = ms.value_and_grad(loss_of, None, net.trainable_params())

    def step(batch):
        loss, grads = grad(batch)
        optimizer(grads)
        return loss

    step = ms.jit(step) if jit else step
    for batch in rows():
        step(batch)


@loop
def mindspore_in_pynative(model):
    mindspore_loop(ms.PYNATIVE_MODE)


@loop
def mindspore_in_graph(model):
    mindspore_loop(ms.GRAPH_MODE)


@loop
def mindspore_jit(model):
    mindspore_loop(ms.PYNATIVE_MODE, jit=True)


@loop
def mindspore_experimental(model):
    from mindspore.experimental.optim import Adam

    mindspore_loop(ms.PYNATIVE_MODE, kind=Adam)


@loop
def mindspore_model(model):
    ms.set_context(mode=ms.GRAPH_MODE)
    ms.set_auto_parallel_context(parallel_mode="stand_alone")
    net = ms.nn.Dense(3, 1)
    data = ms.dataset.NumpySlicesDataset((np.ones((8, 3), np.float32), np.ones((8, 1), np.float32)), ["a", "b"])
    whole = ms.Model(net, ms.nn.MSELoss(), ms.nn.Momentum(net.trainable_params(), 0.1, 0.9))
    whole.train(1, data.batch(4), dataset_sink_mode=False)


@loop
def mindspore_from_different_models(model):
    mindspore_loops.SIZE = None
    said = mindspore_loops.refused_reducers().values()
    assert {str(words) for words in said} == {"none"}, said


if __name__ == "__main__":
    output, *names = sys.argv[1:]
    for name in names:
        ms.set_context(mode=ms.PYNATIVE_MODE)
        model = nn.Linear(3, 1)
        for parameter in model.parameters():
            parameter.assign_value(ms.ops.ones_like(parameter))
        before = [parameter.asnumpy().copy() for parameter in model.parameters()]
        ended = None
        try:
            LOOPS[name](model)
        except RuntimeError as error:
            ended = f"{type(error).__name__}: {error}"
        after = [parameter.asnumpy() for parameter in model.parameters()]
        has_changed = any((one != other).any() for one, other in zip(before, after))
        values = [float(value) for array in after for value in array.ravel()]
        found = {"ended": ended, "has_changed": has_changed, "values": values}
        Path(output, f"{name}-{RANK}").write_text(json.dumps(found))
        print(name, found, flush=True)
