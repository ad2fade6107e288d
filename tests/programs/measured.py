"""Train on padded rows while what is computed is measured, and leave what it should be.

    python measured.py OUTPUT

Leaves TensorBoard files in ``OUTPUT/tensorboard``, and ``OUTPUT/expected.json`` with each step's tokens and seconds.
"""

import json
import sys
import time
from pathlib import Path

import mindnlp_dp_plugin as dp  # isort: skip

import numpy as np
from mindnlp.engine import TrainerCallback
from mindspore.dataset import GeneratorDataset

from mindnlp_dp_plugin.trainers.observe.flops import ModelFlops
from tests.programs.tiny import tiny_model, tiny_trainer

OUTPUT = Path(sys.argv[1])
LENGTH, BATCH, STEPS, ACCUMULATION = 16, 4, 4, 2


def padded_rows():
    chance = np.random.default_rng(7)
    for _ in range(BATCH * STEPS * ACCUMULATION * 2):
        mask = (np.arange(LENGTH) < chance.integers(3, LENGTH + 1)).astype(np.int64)
        yield chance.integers(4, 96, LENGTH) * mask, mask, np.int64(chance.integers(3))


class Seconds(TrainerCallback):
    ends = []

    def on_train_begin(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())

    def on_step_end(self, args, state, control, **kwargs):
        self.ends.append(time.perf_counter())


if __name__ == "__main__":
    rows, model, seconds = list(padded_rows()), tiny_model(), Seconds()
    columns = ["input_ids", "attention_mask", "labels"]
    dataset = GeneratorDataset(rows, columns, shuffle=False).batch(BATCH * 2 // dp.get_world_size())
    trainer = tiny_trainer(
        OUTPUT / "trainer",
        model,
        dataset,
        callbacks=[dp.TensorBoardCallback(OUTPUT / "tensorboard"), seconds],
        max_steps=STEPS,
        logging_steps=1,
        gradient_accumulation_steps=ACCUMULATION,
    )
    trainer.train()
    if dp.is_main_process():
        lengths = np.array([mask.sum() for _, mask, _ in rows]).reshape(STEPS, -1)  # one step of all ranks each
        flops = ModelFlops(model)
        expected = {
            "tokens": lengths.sum(1).tolist(),
            "flops": [flops.of(step, step[:0]) for step in lengths],
            "padding": 1 - lengths.mean() / LENGTH,
            "seconds": np.diff(seconds.ends).tolist(),
        }
        (OUTPUT / "expected.json").write_text(json.dumps(expected))
