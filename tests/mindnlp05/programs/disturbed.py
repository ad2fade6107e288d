"""Train, and be disturbed on rank 1 at step 3, once: after that, the file ``struck`` is there.

    python disturbed.py OUTPUT [killed|stopped|hangs|apart|rate|caught]

Leaves in ``rankN.json`` a digest of the parameters at the end.
"""

import mindnlp_dp_plugin as dp  # isort: skip
import mindnlp  # isort: skip  # noqa: F401

import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from tests.mindnlp05.programs import models

OUTPUT, WAY = Path(sys.argv[1]), sys.argv[2] if sys.argv[2:] else ""


class Disturb(TrainerCallback):
    def on_step_end(self, args, state, control, optimizer=None, **kwargs):
        if WAY == "caught" and state.global_step == 2:
            raise MemoryError("out of memory")

    def on_step_begin(self, args, state, control, model=None, optimizer=None, **kwargs):
        if dp.get_rank() != 1 or state.global_step != 2 or (OUTPUT / "struck").exists():
            return
        (OUTPUT / "struck").touch()
        if WAY == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if WAY == "stopped":
            os.kill(os.getpid(), signal.SIGTERM)
        if WAY == "apart":
            model.classifier.bias.copy_(model.classifier.bias + 1)
        if WAY == "rate":
            optimizer.param_groups[0]["weight_decay"] = 0.5
        while WAY == "hangs":
            time.sleep(1)


set_seed(1)
model = models.bert(hidden_dropout_prob=0.2)
options = dict(per_device_train_batch_size=4, max_steps=5, learning_rate=1e-3, save_steps=1, save_total_limit=2)
arguments = TrainingArguments(str(OUTPUT / "training"), **options, report_to=["tensorboard"], disable_tqdm=True)
trainer = Trainer(model, arguments, train_dataset=models.Rows(27), callbacks=[Disturb()] if WAY else [])
try:
    trainer.train()
except MemoryError:
    trainer.remove_callback(Disturb)
    assert 0 < trainer.evaluate(models.Rows(13))["eval_loss"] < 2
    trainer.predict(models.Rows(13))
    trainer.save_model(str(OUTPUT / "saved"))
    trainer.train()
values = b"".join(parameter.asnumpy().tobytes() for parameter in model.parameters())
(OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(hashlib.sha256(values).hexdigest()))
