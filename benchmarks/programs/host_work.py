"""Make training steps that only compute, or average gradients, with all-reduces that cost nothing.

    python host_work.py MODE LAYERS OUTPUT

All is done as on a device that is no CPU. MODE ``count`` writes to standard error what MindSpore logs of each operator
it dispatches, between lines that name the phases of a step; ``time`` measures the processor time of the thread that
dispatches. Both leave the JSON file OUTPUT.
"""

import json
import os
import statistics
import sys
import time
from pathlib import Path

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore
import numpy as np
from mindnlp.core import nn, optim
from mindnlp.core.autograd import value_and_grad
from mindnlp.transformers import BertConfig, BertForSequenceClassification

from benchmarks.host_work import MARK
from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.ddp import GradientReducer, bucket

SIZES = dict(vocab_size=96, hidden_size=32, num_attention_heads=2, intermediate_size=64)
WARM_UP, ROUNDS = 2, 15
OPERATORS = {
    mindspore.Tensor: ("reshape", "sum", "__mul__", "__add__", "__rtruediv__", "__pow__"),
    mindspore.ops: ("cat", "clamp", "assign"),
    mindspore.mint: ("split",),
}


class FreeRanks(SingleProcess):
    """Stands for two ranks; its all-reduces cost nothing."""

    world_size = 2


class Steps:
    """Steps of a model of its own.

    Args:
        num_layers: How deep the model is: 4 layers have 73 parameters, and each further one 16.
        name: ``local``, which only compute, or ``averaged``.
    """

    def __init__(self, num_layers: int, name: str):
        mindspore.set_seed(0)
        np.random.seed(0)
        self.name = name
        self.model = BertForSequenceClassification(BertConfig(num_hidden_layers=num_layers, **SIZES))
        self.model.set_train()
        self.parameters = list(self.model.parameters())
        self._optimizer = optim.AdamW(self.parameters)
        self.reducer = GradientReducer(self.parameters, FreeRanks()) if name == "averaged" else None
        chance = np.random.default_rng(1)
        ids, labels = chance.integers(4, 96, (8, 12)).astype(np.int32), chance.integers(2, size=8).astype(np.int32)
        batch = {"input_ids": mindspore.Tensor(ids), "labels": mindspore.Tensor(labels)}
        self._step = value_and_grad(lambda: self.model(**batch).loss, tuple(self.parameters))

    def run(self, enter):
        """One step; ``enter`` is told what begins."""
        enter(self, "backward")
        if self.reducer:
            self.reducer.prepare()
        self._step()
        enter(self, "finish")
        if self.reducer:
            self.reducer.finish()
        enter(self, "clip")
        if self.reducer:
            self.reducer.averaged.clip_grad_norm(1e-3)
        enter(self, "optimizer")
        self._optimizer.step()
        self.model.zero_grad()
        enter(self, "end")


def count(ways):
    """Let MindSpore log the operators of one step of each way, between marks."""

    def mark(steps, phase):
        os.write(2, f"\n{MARK}{steps.name} {phase}\n".encode())

    for steps in ways:
        steps.run(mark)


def measure(steps):
    """Seconds that the reducer takes, by phase: in all, and of them within MindSpore's operators; medians."""
    watch = Stopwatch()
    for method in ("_on_gradient", "finish", "clip_grad_norm"):
        setattr(steps.reducer, method, watch.of_reducer(getattr(steps.reducer, method)))
    for owner, names in OPERATORS.items():
        for name in names:
            setattr(owner, name, watch.of_operator(getattr(owner, name)))
    rounds = []
    for _ in range(ROUNDS):
        watch.seconds = {}
        steps.run(lambda _, phase: watch.enter(phase))
        rounds.append(watch.seconds)
    return {
        phase: [statistics.median(of_round[phase][part] for of_round in rounds) for part in (0, 1)]
        for phase in rounds[0]
    }


class Stopwatch:
    """Adds up the processor time of the reducer's methods, and of the operators within them, by phase of the step."""

    def __init__(self):
        self.seconds = {}
        self._is_in_reducer = False

    def enter(self, phase):
        self._phase = phase

    def of_reducer(self, method):
        def timed(*arguments):
            self._is_in_reducer = True
            result = self._add(0, method, *arguments)
            self._is_in_reducer = False
            return result

        return timed

    def of_operator(self, operator):
        def timed(*arguments, **keywords):
            if not self._is_in_reducer:
                return operator(*arguments, **keywords)
            self._is_in_reducer = False  # operators that it calls are within it
            result = self._add(1, operator, *arguments, **keywords)
            self._is_in_reducer = True
            return result

        return timed

    def _add(self, part, function, *arguments, **keywords):
        began = time.thread_time()
        result = function(*arguments, **keywords)
        self.seconds.setdefault(self._phase, [0, 0])[part] += time.thread_time() - began
        return result


def seconds_of_empty_hooks(num_parameters):
    """What MindSpore takes to call hooks that do nothing: with them and without, in turns, where all else is quick."""
    parameters = [nn.Parameter(mindspore.ops.ones(4, mindspore.float32)) for _ in range(num_parameters)]
    step = value_and_grad(lambda: mindspore.ops.cat(parameters).sum(), tuple(parameters))

    def seconds():
        began = time.thread_time()
        step()
        return time.thread_time() - began

    more = []
    for _ in range(WARM_UP + ROUNDS):
        alone = seconds()
        hooks = [parameter.register_hook(lambda gradient: None) for parameter in parameters]
        more.append(seconds() - alone)
        for hook in hooks:
            hook.remove()
    return statistics.median(more[WARM_UP:])


def main():
    mode, num_layers, output = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    mindspore.runtime.launch_blocking()  # or threads that spin would take turns with the one that is measured
    dp.install(dp.DataParallelConfig(cpu_operators=False))
    bucket.is_on_cpu = lambda: False
    ways = [Steps(num_layers, name) for name in ("local", "averaged")]
    for _ in range(WARM_UP):
        for steps in ways:
            steps.run(lambda *_: None)
    averaged = ways[-1]
    numbers = {"parameters": len(averaged.parameters), "buckets": averaged.reducer.num_buckets}
    if mode == "count":
        count(ways)
    else:
        numbers |= {"seconds": measure(averaged), "empty_hooks": seconds_of_empty_hooks(len(averaged.parameters))}
    output.write_text(json.dumps(numbers))


if __name__ == "__main__":
    main()
