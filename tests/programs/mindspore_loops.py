"""MindSpore's own loops and collectives, as its tutorials have them.

    python mindspore_loops.py OUTPUT SIZE SNIPPET...

Leaves what a snippet computed in ``OUTPUT/<SNIPPET>-<RANK>.npz``. It knows nothing of the plugin. With a SIZE that is
not 0, one process stands for that many ranks: it reads the rows of all.
"""

import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops
from mindspore.communication import get_group_size, get_rank, init

EPOCHS, ROWS, BATCH, FEATURES, CLASSES = 2, 16, 4, 6, 3
SNIPPETS = {}


def snippet(function):
    SNIPPETS[function.__name__] = function
    return function


def tensor(*values, dtype=np.float32):
    return Tensor(np.array(values, dtype))


@snippet
def all_reduce_of_the_lecture():
    from mindspore.communication.comm_func import all_reduce

    init()
    input_tensor = Tensor(np.ones([2, 8]).astype(np.float32))
    output = all_reduce(input_tensor)
    print(output)
    total, handle = all_reduce(tensor(1, 2) + get_rank())
    assert handle is None
    pending, handle = all_reduce(tensor(1, 2), async_op=True)
    handle.wait()
    return {
        "printed": np.array(str(output)),
        "mean": (all_reduce(input_tensor + get_rank()) / get_group_size()).asnumpy(),
        "total": total.asnumpy(),
        "pending": pending.asnumpy(),
        "largest": all_reduce(tensor(1, -get_rank()), op="max")[0].asnumpy(),
        "counts": all_reduce(tensor(get_rank() + 1, dtype=np.int64))[0].asnumpy(),
        "halves": all_reduce(tensor(0.5, dtype=np.float16))[0].asnumpy(),
    }


@snippet
def other_functions_of_comm_func():
    from mindspore.communication import comm_func

    init()
    rank = get_rank()
    mine = tensor(rank, rank + 10)
    comm_func.barrier()
    return {
        "gathered": comm_func.all_gather_into_tensor(mine)[0].asnumpy(),
        "scattered": comm_func.reduce_scatter_tensor(tensor(1, 2) + rank)[0].asnumpy(),
        "sent": comm_func.broadcast(mine, 1).asnumpy(),
        "reduced": comm_func.reduce(mine, 0).asnumpy(),
    }


@snippet
def functions_of_mint():
    from mindspore.mint import distributed

    distributed.init_process_group()
    rank, size = distributed.get_rank(), distributed.get_world_size()
    total = tensor(1, 2) + rank
    assert distributed.all_reduce(total) is None
    mean = tensor(1, 2) + rank
    distributed.all_reduce(mean, op="avg", async_op=True).wait()
    sent = tensor(rank, rank + 10)
    distributed.broadcast(sent, src=1)
    parts = [tensor(0, 0) for _ in range(size)]
    distributed.all_gather(parts, tensor(rank, rank + 10))
    whole = tensor(*[0] * size)
    distributed.all_gather_into_tensor(whole, tensor(rank))
    distributed.barrier()
    objects = [None] * size
    distributed.all_gather_object(objects, {"rank": rank})
    dealt = tensor(0)
    distributed.scatter(dealt, [tensor(peer + 5) for peer in range(size)], src=0)
    return {
        "total": total.asnumpy(),
        "mean": mean.asnumpy(),
        "sent": sent.asnumpy(),
        "parts": np.stack([part.asnumpy() for part in parts]),
        "whole": whole.asnumpy(),
        "objects": np.array([entry["rank"] for entry in objects]),
        "dealt": dealt.asnumpy(),
        "rank": np.array([rank, size]),
    }


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.dense_relu_sequential = nn.SequentialCell(
            nn.Dense(FEATURES, 8, weight_init="normal", bias_init="zeros"),
            nn.ReLU(),
            nn.Dense(8, CLASSES, weight_init="normal", bias_init="zeros"),
        )

    def construct(self, x):
        return self.dense_relu_sequential(self.flatten(x))


def create_dataset(rank_id, rank_size):
    chance = np.random.default_rng(0)
    data = chance.standard_normal((ROWS, FEATURES)).astype(np.float32)
    label = chance.integers(0, CLASSES, ROWS).astype(np.int32)
    # Rank by rank within each of one process's batches.
    order = np.arange(ROWS) if rank_size is None else np.arange(ROWS).reshape(-1, rank_size, BATCH)[:, rank_id].ravel()
    rows = ms.dataset.NumpySlicesDataset((data[order], label[order]), ["data", "label"], shuffle=False)
    return rows.batch(BATCH * (SIZE if rank_size is None else 1))


def parameters(net):
    return {parameter.name: parameter.asnumpy() for parameter in net.get_parameters()}


def prepare(mode, seed=1, broadcasts=False):
    ms.set_context(mode=mode)
    if SIZE is None:
        modes = dict(parallel_mode=ms.ParallelMode.DATA_PARALLEL, parameter_broadcast=broadcasts)
        ms.set_auto_parallel_context(gradients_mean=True, **modes)
        init()
    if seed is not None:
        ms.set_seed(seed)
    data_set = create_dataset(get_rank(), get_group_size()) if SIZE is None else create_dataset(0, None)
    net = Network()
    return data_set, net, nn.CrossEntropyLoss(), nn.SGD(net.trainable_params(), 1e-1)


def loop_of_the_tutorial(mode):
    data_set, net, loss_fn, optimizer = prepare(mode)

    def forward_fn(data, label):
        logits = net(data)
        loss = loss_fn(logits, label)
        return loss, logits

    grad_fn = ms.value_and_grad(forward_fn, None, net.trainable_params(), has_aux=True)
    grad_reducer = nn.DistributedGradReducer(optimizer.parameters) if SIZE is None else lambda grads: grads

    for _ in range(EPOCHS):
        for data, label in data_set:
            (loss, _), grads = grad_fn(data, label)
            grads = grad_reducer(grads)
            optimizer(grads)
            assert np.isfinite(loss.asnumpy())
    return parameters(net)


@snippet
def loop_in_pynative():
    return loop_of_the_tutorial(ms.PYNATIVE_MODE)


@snippet
def loop_in_graph():
    return loop_of_the_tutorial(ms.GRAPH_MODE)


def model_train(mode):
    data_set, net, loss_fn, optimizer = prepare(mode)
    ms.Model(net, loss_fn, optimizer).train(EPOCHS, data_set, dataset_sink_mode=False)
    return parameters(net)


@snippet
def model_train_in_pynative():
    return model_train(ms.PYNATIVE_MODE)


@snippet
def model_train_in_graph():
    return model_train(ms.GRAPH_MODE)


@snippet
def reducer_in_a_graph():
    data_set, net, loss_fn, optimizer = prepare(ms.PYNATIVE_MODE)

    def forward_fn(data, label):
        return loss_fn(net(data), label)

    grad_fn = ms.value_and_grad(forward_fn, None, net.trainable_params())
    grad_reducer = nn.DistributedGradReducer(optimizer.parameters)

    @ms.jit
    def averaged(data, label):
        loss, grads = grad_fn(data, label)
        return loss, grad_reducer(grads)

    for data, label in data_set:
        optimizer(averaged(data, label)[1])
    return parameters(net)


def average_by_reducer(optimizer):
    return nn.DistributedGradReducer(optimizer.parameters)


def average_by_comm_func(optimizer):
    from mindspore.communication.comm_func import all_reduce

    return lambda grads: tuple(all_reduce(grad)[0] / get_group_size() for grad in grads)


def average_by_mint(optimizer):
    def average(grads):
        for grad in grads:
            ms.mint.distributed.all_reduce(grad)
        return tuple(grad / get_group_size() for grad in grads)

    return average


def steps_of(average_by, mode, broadcasts, compiled=False):
    """Two steps from what each rank has drawn."""
    data_set, net, loss_fn, optimizer = prepare(mode, None, broadcasts)

    def forward_fn(data, label):
        return loss_fn(net(data), label)

    grad_fn = ms.value_and_grad(forward_fn, None, net.trainable_params())
    average = average_by(optimizer)
    begun = {f"begun.{name}": values.copy() for name, values in parameters(net).items()}

    def averaged(data, label):
        return average(grad_fn(data, label)[1])

    averaged = ms.jit(averaged) if compiled else averaged
    for data, label in data_set:
        optimizer(averaged(data, label))
    return {**begun, **parameters(net)}


def model_of(mode, broadcasts):
    data_set, net, loss_fn, optimizer = prepare(mode, None, broadcasts)
    ms.Model(net, loss_fn, optimizer).train(1, data_set, dataset_sink_mode=False)
    return parameters(net)


WAYS = {
    "reducer": lambda broadcasts: steps_of(average_by_reducer, ms.PYNATIVE_MODE, broadcasts),
    "reducer_in_a_jit": lambda broadcasts: steps_of(average_by_reducer, ms.PYNATIVE_MODE, broadcasts, compiled=True),
    "reducer_in_graph_mode": lambda broadcasts: steps_of(average_by_reducer, ms.GRAPH_MODE, broadcasts),
    "model": lambda broadcasts: model_of(ms.PYNATIVE_MODE, broadcasts),
    "model_in_graph": lambda broadcasts: model_of(ms.GRAPH_MODE, broadcasts),
    "comm_func": lambda broadcasts: steps_of(average_by_comm_func, ms.PYNATIVE_MODE, broadcasts),
    "mint": lambda broadcasts: steps_of(average_by_mint, ms.PYNATIVE_MODE, broadcasts),
}


def refusals_of(*ways):
    found = {}
    for way in ways:
        try:
            WAYS[way](False)
            found[way] = np.array("none")
        except RuntimeError as error:
            found[way] = np.array(f"{type(error).__name__}: {error}")
    return found


@snippet
def refused_reducers():
    return refusals_of("reducer", "model")


@snippet
def refused_reducers_in_graphs():
    return refusals_of("reducer_in_graph_mode", "reducer_in_a_jit", "model_in_graph")


@snippet
def refused_comm_func():
    return refusals_of("comm_func")


@snippet
def refused_mint():
    return refusals_of("mint")


def broadcast_by(*ways):
    return {f"{way}.{name}": values for way in ways for name, values in WAYS[way](True).items()}


@snippet
def broadcast_reducers():
    return broadcast_by("reducer", "model")


@snippet
def broadcast_reducers_in_graphs():
    return broadcast_by("reducer_in_graph_mode", "reducer_in_a_jit", "model_in_graph")


@snippet
def rank_0_steps_alone():
    from mindspore.communication import comm_func

    data_set, net, loss_fn, optimizer = prepare(ms.PYNATIVE_MODE, None)
    grad_fn = ms.value_and_grad(lambda data, label: loss_fn(net(data), label), None, net.trainable_params())
    for data, label in data_set:
        for parameter in net.trainable_params():
            parameter.assign_value(comm_func.broadcast(parameter, 0))
        grads = tuple(comm_func.all_reduce(grad)[0] for grad in grad_fn(data, label)[1])
        if get_rank() == 0:
            optimizer(grads)
    for parameter in net.trainable_params():
        parameter.assign_value(comm_func.broadcast(parameter, 0))
    return parameters(net)


@snippet
def saved_into_one_file():
    """As scripts for one process do, on each rank."""
    file = str(Path(sys.argv[1], "saved.ckpt"))
    _, net, _, _ = prepare(ms.PYNATIVE_MODE)
    for _ in range(20):
        ms.save_checkpoint(net, file)
    return {name: parameter.asnumpy() for name, parameter in ms.load_checkpoint(file).items()}


@snippet
def same_rows_and_other_rates():
    """Ranks forget to share rows out, and each takes its own rate."""
    _, net, loss_fn, optimizer = prepare(ms.PYNATIVE_MODE)
    grad_fn = ms.value_and_grad(lambda data, label: loss_fn(net(data), label), None, net.trainable_params())
    average = average_by_reducer(optimizer)
    for data, label in create_dataset(0, 1):
        ms.ops.assign(optimizer.learning_rate, Tensor(0.1 * (1 + get_rank()), ms.float32))
        optimizer(average(grad_fn(data, label)[1]))
    return parameters(net)


@snippet
def operator():
    init()
    return {"total": ops.AllReduce()(tensor(1, 2) + get_rank()).asnumpy()}


@snippet
def what_is_not_there():
    from mindspore.communication import comm_func

    init()
    comm_func.send(tensor(1), 1)


@snippet
def what_mpi_cannot_do():
    for name in ("model_train_in_graph", "reducer_in_a_graph", "operator"):
        try:
            SNIPPETS[name]()
        except RuntimeError as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
    ms.mint.distributed.barrier()  # a rank that fails ends the others, who have not said all of it yet
    SNIPPETS["what_is_not_there"]()


if __name__ == "__main__":
    output, size, *names = sys.argv[1:]
    SIZE = int(size) or None
    for name in names:
        found = SNIPPETS[name]()
        np.savez(Path(output, f"{name}-{'alone' if SIZE else get_rank()}.npz"), **found)
