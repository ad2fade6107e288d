"""Train, and be disturbed on rank 1 at step 3, once: after that, the file ``struck`` is there.

    python disturbed.py OUTPUT [killed|stopped|hangs|apart|scored_apart|rate|exchange|caught|caught_by_one|has_child]

Leaves in ``rankN.json`` a digest of the parameters at the end.
"""

import mindnlp_dp_plugin as dp  # isort: skip
import mindnlp  # isort: skip  # noqa: F401

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

from tests.mindnlp05.programs import models

OUTPUT, WAY = Path(sys.argv[1]), sys.argv[2] if sys.argv[2:] else ""


class Disturb(TrainerCallback):
    def on_step_end(self, args, state, control, optimizer=None, **kwargs):
        if state.global_step == 2 and (WAY == "caught" or (WAY == "caught_by_one" and dp.get_rank() == 1)):
            raise MemoryError("out of memory")

    def on_step_begin(self, args, state, control, model=None, optimizer=None, **kwargs):
        if dp.get_rank() != 1 or state.global_step != 2 or (OUTPUT / "struck").exists():
            return
        (OUTPUT / "struck").touch()
        if WAY == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if WAY == "stopped":
            os.kill(os.getpid(), signal.SIGTERM)
        if WAY == "exchange":
            dp.all_gather_object("of this rank alone")
        if WAY in ("apart", "scored_apart"):
            model.classifier.bias.copy_(model.classifier.bias + 1)
        if WAY == "rate":
            optimizer.param_groups[0]["weight_decay"] = 0.5
        while WAY == "hangs":
            time.sleep(1)


set_seed(1)
model = models.bert(hidden_dropout_prob=0.2)
options = dict(per_device_train_batch_size=4, max_steps=5, learning_rate=1e-3, save_steps=1, save_total_limit=2)
if WAY == "scored_apart":
    options |= dict(eval_strategy="steps", eval_steps=3, save_steps=5)
arguments = TrainingArguments(str(OUTPUT / "training"), **options, report_to=["tensorboard"], disable_tqdm=True)
rows = dict(train_dataset=models.Rows(27), eval_dataset=models.Rows(13))
trainer = Trainer(model, arguments, **rows, callbacks=[Disturb()] if WAY else [])
try:
    trainer.train()
    if WAY == "has_child" and dp.get_rank() == 1:
        child = "import mindnlp_dp_plugin as dp; print('alone', dp.get_world_size(), dp.all_gather_object(5))"
        subprocess.run([sys.executable, "-c", child], check=True)
except MemoryError:
    if WAY == "caught_by_one":
        time.sleep(60)
    trainer.remove_callback(Disturb)
    assert 0 < trainer.evaluate(models.Rows(13))["eval_loss"] < 2
    trainer.predict(models.Rows(13))
    trainer.save_model(str(OUTPUT / "saved"))
    trainer.train()
values = b"".join(parameter.asnumpy().tobytes() for parameter in model.parameters())
(OUTPUT / f"rank{dp.get_rank()}.json").write_text(json.dumps(hashlib.sha256(values).hexdigest()))
