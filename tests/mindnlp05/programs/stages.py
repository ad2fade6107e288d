"""Two stages, with a folder each; a stage that is done is skipped, as scripts do by a marker file.

    python stages.py OUTPUT [killed] [probing] [limited] [sharing]

``killed``: rank 1 dies in the first start, in the fifth step of the second stage. ``probing``: a callback trains
another model in its second step. ``limited``: a callback stops it after its third, and saves. ``sharing``: both stages
have one folder.
"""

import mindnlp_dp_plugin as dp  # isort: skip
import mindnlp  # isort: skip  # noqa: F401

import hashlib
import os
import signal
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from tests.mindnlp05.programs import models

OUTPUT = Path(sys.argv[1])
STRUCK = OUTPUT / "struck"


class Struck(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 5 and dp.get_rank() == 1 and "killed" in sys.argv and not STRUCK.exists():
            STRUCK.touch()
            os.kill(os.getpid(), signal.SIGKILL)


class Probes(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 2 and "probing" in sys.argv:
            options = dict(per_device_train_batch_size=4, max_steps=1, report_to=[], disable_tqdm=True)
            Trainer(
                models.bert(), TrainingArguments(str(OUTPUT / "probe"), **options), train_dataset=models.Rows(8)
            ).train()


class Limits(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3 and "limited" in sys.argv:
            control.should_save = control.should_training_stop = True


def train(stage, model, steps, rate, callbacks=()):
    done = OUTPUT / f"stage_{stage}.npz"
    if done.exists():
        with np.load(done) as weights:
            for parameter, value in zip(model.parameters(), weights.values()):
                parameter.data.copy_(torch.tensor(value))
        return
    folder = "shared" if "sharing" in sys.argv else f"training_{stage}"
    arguments = TrainingArguments(
        str(OUTPUT / folder), per_device_train_batch_size=4, max_steps=steps, learning_rate=rate, save_steps=2,
        adam_epsilon=1e-4, report_to=[], disable_tqdm=True,
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=models.Rows(24), callbacks=list(callbacks)).train()
    dp.barrier()
    if dp.is_main_process():
        np.savez(done, *[parameter.detach().numpy() for parameter in model.parameters()])
    dp.barrier()


set_seed(1)
model = models.bert()
train(1, model, 12, 1e-3)
train(2, model, 7, 5e-4, [Probes(), Limits(), Struck()])
values = b"".join(parameter.asnumpy().tobytes() for parameter in model.parameters())
(OUTPUT / f"rank{dp.get_rank()}.json").write_text(f'"{hashlib.sha256(values).hexdigest()}"')
