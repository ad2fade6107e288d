"""Train several times, each training until it is done: ``python trainings.py OUTPUT NAME...``.

The Trainer is that of the MindNLP that is installed.

A training that is done is skipped, as scripts do by a marker file: ``OUTPUT/done/<name>.npz`` holds its weights,
``<name>.rank<r>.json`` what it ended with. ``FAULTS`` strike as ``faults.py`` says, at the moment of a training's name.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import os
import sys
from pathlib import Path

import numpy as np

from tests.programs import either_trainer as trainers
from tests.programs.faults import comes_to
from tests.programs.noted import digest_of, weights_of

OUTPUT = Path(sys.argv[1])
DONE = OUTPUT / "done"
EXPLICIT = os.environ.get("EXPLICIT", "").split()  # trainings of which the script says resume_from_checkpoint=True
SETTINGS = json.loads(os.environ.get("SETTINGS", "{}"))  # of the trainings, by name


class Struck(trainers.Trainer):
    name = None

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.rows = []

    def training_step(self, model, batch, *given):
        comes_to(self.name, self.state.global_step)
        self.rows.append(batch["input_ids"].asnumpy().tolist())
        return super().training_step(model, batch, *given)


class Probes(trainers.TrainerCallback):
    """Trains another model after the second step."""

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 2:
            train("probe", max_steps=1)


class StopsAt(trainers.TrainerCallback):
    """A time limit: stops and saves."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == self.step:
            control.should_training_stop = control.should_save = True


def train(name, folder=None, starts_from=None, callbacks=(), **changes):
    """Train, or skip what is done."""
    arguments = trainers.TrainingArguments(
        output_dir=str(OUTPUT / (folder or name)), save_strategy="steps", logging_steps=1, disable_tqdm=True,
        **{"max_steps": 4, "save_steps": 2, "learning_rate": 1e-3, **trainers.OPTIONS, **changes},
    )  # fmt: skip
    model = trainers.new_model()
    if starts_from:
        with np.load(DONE / f"{starts_from}.npz") as weights:
            trainers.set_weights(model, weights.values())
    data = dict(train_dataset=trainers.rows(), eval_dataset=trainers.rows(number=8))
    trainer = Struck(model, arguments, **data, callbacks=list(callbacks))
    trainer.name = name
    try:
        trainer.train(resume_from_checkpoint=name in EXPLICIT or None)
        comes_to(f"{name}-end")
        end = {"model": digest_of(model), "step": trainer.state.global_step, "rows": trainer.rows}
    except dp.DataParallelError as error:
        end = {"refused": str(error)}
    (DONE / f"{name}.rank{dp.get_rank()}.json").write_text(json.dumps(end))
    dp.barrier()
    if dp.is_main_process():
        np.savez(DONE / f"{name}.npz", *weights_of(model))
    dp.barrier()


def limited(stop_at=3, **changes):
    return dict(max_steps=6, callbacks=[StopsAt(stop_at)] if stop_at else [], **changes)


def patient(patience=2):
    metric = dict(metric_for_best_model="loss", greater_is_better=True)  # it falls: the first is the best
    each_step = dict(save_steps=1, eval_steps=1, load_best_model_at_end=True)
    each_step[trainers.EVALUATES] = "steps"
    return dict(max_steps=8, callbacks=[trainers.EarlyStoppingCallback(patience)], **metric, **each_step)


TRAININGS = {
    # Stages that share a folder; the second starts where the first ended.
    "stage_1": lambda: dict(folder="stages"),
    "stage_2": lambda: dict(folder="stages", starts_from="stage_1", max_steps=6, save_steps=4, learning_rate=5e-4),
    # The same settings.
    "twin_1": lambda: dict(folder="twins"),
    "twin_2": lambda: dict(folder="twins", starts_from="twin_1"),
    # With a folder each.
    "first": lambda **changes: changes,
    "second": lambda: dict(max_steps=6),
    "probing": lambda: dict(max_steps=6, callbacks=[Probes()]),
    # Stopped by a callback.
    "limited": limited,
    "unlimited": lambda: limited(stop_at=0),
    "patient": patient,
    "ignoring": lambda: dict(max_steps=6, ignore_data_skip=True),
    "timed": lambda by_rank=False: dict(folder=f"timed{dp.get_rank() or ''}" if by_rank else "timed"),
}


if __name__ == "__main__":
    DONE.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:]:
        if not (DONE / f"{name}.npz").exists():
            train(name, **TRAININGS[name](**SETTINGS.get(name, {})))
