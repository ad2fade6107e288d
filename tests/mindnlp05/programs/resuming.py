"""Train with dropout, stop, and go on, each way in turn.

    python resuming.py OUTPUT FOLDER_OF_FIRST WAY...

A way is whole, first:STOP, second:STOP or torn. ``whole`` trains 6 steps, 3 an epoch, which ends with a batch that is
filled up on ranks, of words that are masked at random; ``first`` ends after the checkpoint of step STOP; ``second``
resumes from it; ``torn`` dies while it writes that of step 4. Leaves a digest of the parameters at the end in
``OUTPUT/<way>.rank<r>``.
"""

import mindnlp_dp_plugin as dp  # isort: skip
import mindnlp  # isort: skip  # noqa: F401

import os
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import Trainer, TrainerCallback, default_data_collator, set_seed

from tests.mindnlp05.programs import models
from tests.programs.noted import digest_of

OUTPUT, FOLDER_OF_FIRST, *WAYS = sys.argv[1:]


class LeavesAt(TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_save(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            control.should_training_stop = True


class Torn(Trainer):
    def _save_optimizer_and_scheduler(self, output_dir):
        if self.state.global_step == 4:
            os._exit(3)
        super()._save_optimizer_and_scheduler(output_dir)


def masked(rows):
    """Some words by NumPy's chance, some by torch's."""
    batch = default_data_collator(rows)
    shape = tuple(batch["input_ids"].shape)
    kept = torch.tensor(np.random.rand(*shape) > 0.2) & (torch.rand(shape) > 0.2)
    return {**batch, "input_ids": torch.where(kept, batch["input_ids"], 3)}


for each in WAYS:
    way, _, stop = each.partition(":")
    home = Path(FOLDER_OF_FIRST, f"first:{stop}") if way == "second" else Path(OUTPUT, each)
    set_seed(1)
    model = models.bert(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2)
    rows, kind = models.Rows(11 * dp.get_world_size()), Torn if way == "torn" else Trainer
    leaves = [LeavesAt(int(stop))] if way == "first" else []
    options = dict(max_steps=6, learning_rate=1e-3, save_steps=2, save_total_limit=2)
    # In one process a collator's chance does not go on, as without the plugin.
    more = {"data_collator": masked} if dp.get_world_size() > 1 else None
    trainer = models.trainer_of(home, model, rows, kind, leaves, more, **options)
    trainer.train(resume_from_checkpoint=way == "second")
    Path(OUTPUT, f"{each}.rank{dp.get_rank()}").write_text(digest_of(model))
