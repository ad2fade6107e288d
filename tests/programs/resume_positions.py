"""Train on random settings without a stop, then on from a random checkpoint: each step must be made of the same rows.

    python resume_positions.py OUTPUT NUM_CASES

One process; the plugin trains, as it does with an average of its own. Prints each case that differs, and then how many
cases began in the middle of an epoch, at the end of one, and with training over.
"""

import random
import shutil
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn
from mindnlp.engine import Trainer, TrainerCallback
from mindspore.dataset import GeneratorDataset

import mindnlp_dp_plugin as dp
from tests.programs.tiny import tiny_trainer


class Mean(nn.Module):
    """A model of one weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(mindspore.ops.zeros(1))

    def forward(self, row):
        return {"loss": (row.astype(mindspore.float32) * self.weight).mean()}


class Steps(TrainerCallback):
    """The rows of each optimizer step."""

    def __init__(self):
        self.rows, self._waiting = {}, []

    def read(self, rows):
        self._waiting += rows

    def on_step_end(self, args, state, control, **kwargs):
        self.rows[state.global_step], self._waiting = self._waiting, []


class Noting(Trainer):
    def training_step(self, model, inputs):
        self.steps.read(inputs["row"].asnumpy().tolist())
        return super().training_step(model, inputs)


def rows_of_steps(output, case, resume=None):
    numbers = [(np.int32(row), np.int32(1 + row * 7 % 13)) for row in range(case["num_rows"])]
    rows = GeneratorDataset(numbers, ["row", "length"], shuffle=case["shuffle"])
    if case["by_batch"]:
        rows = rows.filter(lambda row: True, ["row"])
    arguments = dict(max_steps=-1, num_train_epochs=case["epochs"], gradient_accumulation_steps=case["accumulation"])
    arguments |= dict(group_by_length=case["group_by_length"], save_strategy="steps", save_steps=case["save_steps"])
    batches, steps = rows.project(["row"]).batch(case["batch"], case["drop_last"]), Steps()
    trainer = tiny_trainer(output, Mean(), batches, Noting, [steps], logging_steps=1000, optim="sgd", **arguments)
    trainer.steps = steps
    trainer.train(resume_from_checkpoint=resume)
    return steps.rows


def random_case(chance):
    by_batch = chance.random() < 0.3
    batch = chance.randint(1, 5)
    return {
        "num_rows": chance.randint(batch, 30),
        "batch": batch,
        "drop_last": chance.random() < 0.3,
        "shuffle": chance.random() < 0.7,
        "by_batch": by_batch,
        "group_by_length": not by_batch and chance.random() < 0.4,
        "accumulation": chance.choice([1, 1, 2, 3, 4]),
        "epochs": chance.randint(1, 3),
        "save_steps": chance.randint(1, 4),
    }


def check(output, case, chance):
    """Whether a checkpoint was in the middle of an epoch (None: there was none), or what went wrong."""
    whole = rows_of_steps(output / "whole", case)
    folders = sorted((output / "whole").glob("checkpoint-*"))
    if not folders:
        return None
    folder = chance.choice(folders)
    step = int(folder.name.split("-")[1])
    try:
        rest = rows_of_steps(output / "rest", case, str(folder))
    except dp.DataParallelError as error:
        is_short = case["num_rows"] // case["batch"] <= case["accumulation"]
        assert is_short and "fewer than gradient_accumulation_steps" in str(error), case
        return "refused"
    expected = {number: rows for number, rows in whole.items() if number > step}
    assert rest == expected, f"{case}, from step {step}: {rest} instead of {expected}"
    return "over" if step == max(whole) else "middle"


def main():
    output, num_cases = Path(sys.argv[1]), int(sys.argv[2])
    dp.install(dp.DataParallelConfig(async_save=True))
    counts = {"middle": 0, "over": 0, "refused": 0, None: 0}
    for number in range(num_cases):
        chance = random.Random(number)
        counts[check(output, random_case(chance), chance)] += 1
        shutil.rmtree(output, ignore_errors=True)
    print(f"resumed {counts['middle']} times within training, {counts['over']} times at its end")


if __name__ == "__main__":
    main()
