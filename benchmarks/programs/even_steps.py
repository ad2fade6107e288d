"""Train on ranks with the same work each: ``python even_steps.py OUTPUT NUM_STEPS``.

Rank 0 leaves ``OUTPUT/even.json``: how often a rank was named as slow, what the slower took in each window in times of
the other, the seconds of training, and those spent on comparing.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
import time
from pathlib import Path

from mindnlp.engine import Trainer, TrainingArguments

from mindnlp_dp_plugin.trainers.observe.stragglers import StragglerMonitor
from tests.programs.tiny import tiny_dataset, tiny_model

OUTPUT, NUM_STEPS = Path(sys.argv[1]), int(sys.argv[2])
watched, ratios, comparing = set(), [], [0.0]


def timed(stock):
    def method(self, *arguments, **more):
        began, compared = time.perf_counter(), self._num_windows
        stock(self, *arguments, **more)
        comparing[0] += time.perf_counter() - began
        watched.add(self)
        if self._num_windows > compared:
            ratios.append(self.slowest)

    return method


StragglerMonitor.add = timed(StragglerMonitor.add)
arguments = TrainingArguments(
    str(OUTPUT / "trainer"), max_steps=NUM_STEPS, save_strategy="no", logging_steps=100, disable_tqdm=True
)
model = tiny_model(hidden_size=128, intermediate_size=256, num_hidden_layers=4)
trainer = Trainer(model, arguments, train_dataset=tiny_dataset(2048, 32))
began = time.perf_counter()
trainer.train()
seconds = time.perf_counter() - began
if dp.is_main_process():
    (pace,) = watched
    found = {"named": sum(pace._num_slow.values()), "windows": pace._num_windows, "ratios": ratios}
    (OUTPUT / "even.json").write_text(json.dumps({**found, "seconds": seconds, "comparing": comparing[0]}))
