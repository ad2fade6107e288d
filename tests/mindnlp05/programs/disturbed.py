"""Train in each way in turn, and be disturbed on rank 1 at step 3, once: after that, the file ``struck`` is there.

    python disturbed.py OUTPUT WAY...

A way is undisturbed, killed, stopped, hangs, exchange, numbered, apart, scored_apart, rate, caught or caught_by_one.
Each trains in ``OUTPUT/<way>``, and leaves there in ``rankN.json`` a digest of the parameters at the end, and what it
was told.
"""

import mindnlp_dp_plugin as dp  # isort: skip
import mindnlp  # isort: skip  # noqa: F401

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from transformers import TrainerCallback, set_seed

from tests.mindnlp05.programs import models
from tests.programs.noted import digest_of, refusal_of

OUTPUT, *WAYS = sys.argv[1:]


class Disturb(TrainerCallback):
    def __init__(self, way):
        self.way, self.struck = way, Path(OUTPUT, way, "struck")

    def on_step_end(self, args, state, control, optimizer=None, **kwargs):
        if state.global_step == 2 and (self.way == "caught" or (self.way == "caught_by_one" and dp.get_rank() == 1)):
            raise MemoryError("out of memory")

    def on_step_begin(self, args, state, control, model=None, optimizer=None, **kwargs):
        if dp.get_rank() != 1 or state.global_step != 2 or self.struck.exists():
            return
        self.struck.touch()
        if self.way == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.way == "stopped":
            os.kill(os.getpid(), signal.SIGTERM)
        if self.way == "exchange":
            dp.all_gather_object("of this rank alone")
        if self.way in ("apart", "scored_apart"):
            model.classifier.bias.copy_(model.classifier.bias + 1)
        if self.way == "rate":
            optimizer.param_groups[0]["weight_decay"] = 0.5
        while self.way == "hangs":
            time.sleep(1)


def train(way):
    folder = Path(OUTPUT, way)
    folder.mkdir(exist_ok=True)
    set_seed(1)
    model = models.bert(hidden_dropout_prob=0.2)
    if way == "numbered":
        model.config.label2id = {"bad": dp.get_rank(), "good": 1 - dp.get_rank()}
    options = dict(max_steps=5, learning_rate=1e-3, save_steps=1, save_total_limit=2, report_to=["tensorboard"])
    if way == "scored_apart":
        options |= dict(eval_strategy="steps", eval_steps=3, save_steps=5)
    disturb = [Disturb(way)] if way != "undisturbed" else []
    given = dict(callbacks=disturb, more={"eval_dataset": models.Rows(13)})
    trainer = models.trainer_of(folder / "training", model, models.Rows(27), **given, **options)
    told = None
    try:
        told = refusal_of(trainer.train)
    except MemoryError:
        trainer.remove_callback(Disturb)
        assert 0 < trainer.evaluate(models.Rows(13))["eval_loss"] < 2
        trainer.predict(models.Rows(13))
        trainer.save_model(str(folder / "saved"))
        trainer.train()
    (folder / f"rank{dp.get_rank()}.json").write_text(json.dumps([digest_of(model), told]))


CHILD = "import mindnlp_dp_plugin as dp; print('alone', dp.get_world_size(), dp.all_gather_object(5))"

for way in WAYS:
    if way == "apart":
        dp.install(dp.DataParallelConfig(check_replicas_every=1))
    train(way)
    dp.install()
    if way == "undisturbed" and dp.get_rank() == 1:
        subprocess.run([sys.executable, "-c", CHILD], check=True)
