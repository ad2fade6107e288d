"""Train with dropout, stop, and go on.

    python resuming.py OUTPUT whole|first|second|torn [FOLDER_OF_FIRST] [STOP]

``whole`` trains 6 steps, 3 an epoch, which ends with a batch that is filled up on ranks; ``first`` ends after the
checkpoint of step 2 or STOP; ``second`` resumes from it; ``torn`` dies while it writes that of step 4.
"""

import mindnlp_dp_plugin as dp  # isort: skip
import mindnlp  # isort: skip  # noqa: F401

import hashlib
import os
import sys
from pathlib import Path

from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from tests.mindnlp05.programs import models

folder, way, *rest = sys.argv[1:]
HOME = Path(rest[0] if way == "second" else folder, "training")
STOP = int(rest[-1]) if way == "first" and rest else 2


class Leave(TrainerCallback):
    def on_save(self, args, state, control, **kwargs):
        if state.global_step == STOP:
            control.should_training_stop = True


class Torn(Trainer):
    def _save_optimizer_and_scheduler(self, output_dir):
        if self.state.global_step == 4:
            os._exit(3)
        super()._save_optimizer_and_scheduler(output_dir)


set_seed(1)
model = models.bert(hidden_dropout_prob=0.2, attention_probs_dropout_prob=0.2)
arguments = TrainingArguments(
    str(HOME),
    per_device_train_batch_size=4,
    max_steps=6,
    learning_rate=1e-3,
    save_steps=2,
    save_total_limit=2,
    report_to=[],
    disable_tqdm=True,
    resume_from_checkpoint=None,
)
kind = Torn if way == "torn" else Trainer
trainer = kind(
    model, arguments, train_dataset=models.Rows(11 * dp.get_world_size()), callbacks=[Leave()] if way == "first" else []
)
trainer.train(resume_from_checkpoint=way == "second")
values = b"".join(parameter.asnumpy().tobytes() for parameter in model.parameters())
Path(folder, f"rank{dp.get_rank()}.json").write_text(f'"{hashlib.sha256(values).hexdigest()}"')
