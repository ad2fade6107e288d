"""Time forward, backward and the averaging of gradients, one way after the other, on each rank.

    python gradient_steps.py OUTPUT MODEL BATCH_SIZE ROUNDS WAY...

Ways: ``averaged`` over the ranks by the plugin's buckets; ``by_mpi``, the same in memory that ranks do not share;
``per_parameter``, as MindNLP's own loop does it, one blocking all-reduce after another once backward is done;
``grad_reducer``, MindSpore's ``nn.DistributedGradReducer``, once backward is done; ``local``, not at all;
``stock_operators``, not at all and with the operators MindNLP calls. Each round makes one step in each way.
Rank r leaves OUTPUT/gradient_steps.rank<r>.json.
"""

import json
import sys
import time
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core.autograd import value_and_grad

import mindnlp_dp_plugin as dp
from benchmarks.programs import models
from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.ddp import GradientReducer
from mindnlp_dp_plugin.ddp.replicas import make_replicas
from mindnlp_dp_plugin.trainers.observe.throughput import peak_memory
from tests.oracles.naive_reducer import NaiveReducer
from tests.programs.reducers import CountingGroup

OUTPUT, MODEL, BATCH_SIZE, ROUNDS, WAYS = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:5]), sys.argv[5:]
WARM_UP = 2


def main():
    group = CountingGroup()
    model = models.make(MODEL)
    make_replicas(model, collectives.current())
    model.set_train()
    parameters = list(model.parameters())
    ids, labels = map(np.stack, zip(*models.rows(MODEL, BATCH_SIZE)))
    batch = {"input_ids": mindspore.Tensor(ids), "labels": mindspore.Tensor(labels)}
    step = value_and_grad(lambda: model(**batch).loss, tuple(parameters))
    reducers = {}
    if "averaged" in WAYS:
        reducers["averaged"] = GradientReducer(parameters, group)
    if "by_mpi" in WAYS:
        reducers["by_mpi"] = GradientReducer(parameters, NothingShared())
    if "per_parameter" in WAYS:
        reducers["per_parameter"] = NaiveReducer(parameters, group)
    if "grad_reducer" in WAYS:
        reducers["grad_reducer"] = MindSporesOwn(parameters)
    taken = {way: [] for way in WAYS}
    for number in range(WARM_UP + ROUNDS):
        if number == WARM_UP:
            group.num_all_reduces = group.num_bytes = 0
        for way in WAYS:
            seconds = time_step(step, model, way, reducers.get(way))
            if number >= WARM_UP:
                taken[way].append(seconds)
    outcome = {
        "seconds": taken,
        "all_reduces_per_step": group.num_all_reduces / ROUNDS,
        "bytes_per_step": group.num_bytes / ROUNDS,
        "gradient_bytes": sum(parameter.nbytes for parameter in parameters),
        "peak_memory": peak_memory(),
    }
    (OUTPUT / f"gradient_steps.rank{dp.get_rank()}.json").write_text(json.dumps(outcome))


class NothingShared(CountingGroup):
    """The job's group, whose ranks share no memory."""

    can_reduce_scatter = adds_by_tree = False

    def memory_for(self, size, dtype):
        return np.empty(size, dtype)


class MindSporesOwn:
    """``nn.DistributedGradReducer``, which wants to know of MindSpore's own Parameters only what they are called."""

    def __init__(self, parameters):
        mindspore.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
        self._parameters = parameters
        named = [mindspore.Parameter(mindspore.Tensor(0.0), name=f"p{number}") for number in range(len(parameters))]
        self._reduce = mindspore.nn.DistributedGradReducer(named)

    def prepare(self):
        pass

    def finish(self):
        averaged = self._reduce(tuple(parameter.grad for parameter in self._parameters))
        averaged[-1].asnumpy()  # wait
        for parameter, gradient in zip(self._parameters, averaged):
            parameter.grad = gradient


def time_step(step, model, way, reducer):
    """Seconds of the whole step, of what comes after backward, and of the processor for the step."""
    if way == "stock_operators":
        dp.uninstall()
    model.zero_grad()
    dp.barrier()
    began, worked = time.perf_counter(), time.process_time()
    if reducer:
        reducer.prepare()
    step()
    backward_done = time.perf_counter()
    if reducer:
        reducer.finish()
    ended, worked = time.perf_counter(), time.process_time() - worked
    if way == "stock_operators":
        dp.install()
    return ended - began, ended - backward_done, worked


if __name__ == "__main__":
    main()
