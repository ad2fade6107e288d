"""Make training steps that only compute, or call empty hooks, or average gradients, with all-reduces that cost nothing.

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
from mindnlp.core import optim
from mindnlp.core.autograd import value_and_grad
from mindnlp.transformers import BertConfig, BertForSequenceClassification

from benchmarks.host_work import MARK
from mindnlp_dp_plugin.collectives.single import SingleProcess
from mindnlp_dp_plugin.ddp import GradientReducer, bucket

SIZES = dict(vocab_size=96, hidden_size=32, num_attention_heads=2, intermediate_size=64)
WARM_UP, ROUNDS = 2, 9


class FreeRanks(SingleProcess):
    """Stands for two ranks; its all-reduces cost nothing."""

    world_size = 2


class Steps:
    """Steps of a model of its own.

    Args:
        num_layers: How deep the model is: 4 layers have 73 parameters, and each further one 16.
        name: ``local``, which only compute; ``hooked``, with a hook per parameter that does nothing; ``averaged``.
    """

    def __init__(self, num_layers: int, name: str):
        mindspore.set_seed(0)
        np.random.seed(0)
        self.name = name
        self.model = BertForSequenceClassification(BertConfig(num_hidden_layers=num_layers, **SIZES))
        self.model.set_train()
        self.parameters = list(self.model.parameters())
        self._optimizer = optim.AdamW(self.parameters)
        self._reducer = GradientReducer(self.parameters, FreeRanks()) if name == "averaged" else None
        for parameter in self.parameters if name == "hooked" else ():
            parameter.register_hook(lambda gradient: None)
        chance = np.random.default_rng(1)
        ids, labels = chance.integers(4, 96, (8, 12)).astype(np.int32), chance.integers(2, size=8).astype(np.int32)
        batch = {"input_ids": mindspore.Tensor(ids), "labels": mindspore.Tensor(labels)}
        self._step = value_and_grad(lambda: self.model(**batch).loss, tuple(self.parameters))

    @property
    def num_buckets(self):
        return self._reducer.num_buckets

    def run(self, enter):
        """One step; ``enter`` is told what begins."""
        enter(self, "backward")
        if self._reducer:
            self._reducer.prepare()
        self._step()
        enter(self, "finish")
        if self._reducer:
            self._reducer.finish()
        enter(self, "clip")
        if self._reducer:
            self._reducer.clip_grad_norm(1e-3)
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


def measure(ways):
    """For each way and phase, the median of the seconds that this thread computed."""
    began = {steps.name: {} for steps in ways}
    rounds = []

    def note(steps, phase):
        began[steps.name][phase] = time.thread_time()

    for _ in range(ROUNDS):
        for steps in ways:
            steps.run(note)
        rounds.append({name: durations(marks) for name, marks in began.items()})
    return {
        name: {phase: statistics.median(one[name][phase] for one in rounds) for phase in rounds[0][name]}
        for name in began
    }


def durations(marks):
    """How long each phase took, given when each began."""
    names = list(marks)
    return {phase: marks[after] - marks[phase] for phase, after in zip(names, names[1:])}


def main():
    mode, num_layers, output = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    mindspore.runtime.launch_blocking()  # or threads that spin would take turns with the one that is measured
    dp.install(dp.DataParallelConfig(cpu_operators=False))
    bucket.is_on_cpu = lambda: False
    ways = [Steps(num_layers, name) for name in ("local", "hooked", "averaged")]
    for _ in range(WARM_UP):
        for steps in ways:
            steps.run(lambda *_: None)
    seconds = measure(ways) if mode == "time" else count(ways)
    numbers = {"parameters": len(ways[-1].parameters), "buckets": ways[-1].num_buckets, "seconds": seconds}
    output.write_text(json.dumps(numbers))


if __name__ == "__main__":
    main()
