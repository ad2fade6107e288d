"""Print how long saves stop training, the step after a save, and another step, in seconds: ``python saves.py 0|1``."""

import mindnlp_dp_plugin as dp  # isort: skip

import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import mindspore
import numpy as np
from mindnlp.engine import Trainer, TrainerCallback, TrainingArguments
from mindnlp.transformers import BertConfig, BertForSequenceClassification

NUM_STEPS, EVERY = 15, 5


class Clock(TrainerCallback):
    def __init__(self):
        self.steps, self.stalls = [], []

    def on_step_begin(self, args, state, control, **kwargs):
        self.began = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        self.ended = time.perf_counter()
        self.steps.append(self.ended - self.began)

    def on_save(self, args, state, control, **kwargs):
        self.stalls.append(time.perf_counter() - self.ended)


dp.install(dp.DataParallelConfig(resume=True, async_save=sys.argv[1] == "1"))
chance = np.random.default_rng(0)
rows = [(chance.integers(5, 1000, 64).astype(np.int32), np.int32(i % 2)) for i in range(8 * NUM_STEPS)]
with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
    clock = Clock()
    arguments = TrainingArguments(
        folder, max_steps=NUM_STEPS, save_strategy="steps", save_steps=EVERY, save_total_limit=1, disable_tqdm=True
    )
    data = mindspore.dataset.GeneratorDataset(rows, ["input_ids", "labels"]).batch(8)
    Trainer(BertForSequenceClassification(BertConfig()), arguments, train_dataset=data, callbacks=[clock]).train()
after_saves = clock.steps[EVERY::EVERY]
others = [seconds for number, seconds in enumerate(clock.steps) if number % EVERY > 1]
print(statistics.median(clock.stalls), statistics.median(after_saves), statistics.median(others))
