"""Train with ``fp16=True``, and leave what each case ended with in ``OUTPUT/<case>.rank<r>.npz``.

    python mixed_precision.py OUTPUT NUM_RANKS

Started alone, one process takes the batches of NUM_RANKS ranks at once.
"""

import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.engine import Trainer, TrainerCallback

import mindnlp_dp_plugin as dp
from tests.programs.tiny import tiny_dataset, tiny_model, tiny_trainer

OUTPUT, NUM_RANKS = Path(sys.argv[1]), int(sys.argv[2])
RANK = dp.get_rank()
BATCH_SIZE = 8 * NUM_RANKS // dp.get_world_size()
CASES = {}


def case(train):
    """A function that trains a Trainer and returns it."""
    CASES[train.__name__] = train
    return train


class Watches(TrainerCallback):
    """Notes parameters and learning rate after each step, and the logs."""

    def __init__(self):
        self.parameters, self.rates, self.logs = [], [], []

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        self.parameters.append(flat(model))

    def on_step_end(self, args, state, control, model=None, lr_scheduler=None, **kwargs):
        self.parameters.append(flat(model))
        self.rates.append(lr_scheduler.get_last_lr()[0])

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            self.logs.append((logs["loss_scale"], logs["skipped_steps"]))


def flat(model):
    return np.concatenate([parameter.asnumpy().ravel() for parameter in model.parameters()])


def trainer_of(output=OUTPUT / "trainer", trainer_type=Trainer, callbacks=(), **arguments):
    # SGD: Adam divides by the gradient's own size, and so makes a step of what was rounding.
    options = dict(fp16=True, optim="sgd", learning_rate=0.05, max_steps=6, logging_steps=1)
    dataset = tiny_dataset(num_rows=8 * NUM_RANKS * 6, batch_size=BATCH_SIZE)
    model = tiny_model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    watches = Watches()
    trainer = tiny_trainer(output, model, dataset, trainer_type, [watches, *callbacks], **{**options, **arguments})
    trainer.watches = watches
    return trainer


def trained(**options):
    trainer = trainer_of(**options)
    trainer.train()
    return trainer


@case
def plain():
    return trained()


@case
def in_float32():
    trainer = trainer_of(fp16=False)
    trainer.watches.on_log = lambda *args, **kwargs: None
    trainer.train()
    return trainer


@case
def accumulated():
    return trained(gradient_accumulation_steps=2, max_steps=3)


@case
def averaged_over_samples():
    dp.install(dp.DataParallelConfig(average_over="samples"))
    try:
        return trained(gradient_accumulation_steps=2, max_steps=3)
    finally:
        dp.install()


@case
def growing():
    dp.install(dp.DataParallelConfig(fp16_initial_scale=1024, fp16_growth_interval=2))
    try:
        return trained()
    finally:
        dp.install()


class OverflowsOnTheLastRank(Trainer):
    """In the second and the fifth step, one rank's gradients are infinite."""

    num_losses = 0

    def compute_loss(self, model, inputs, return_outputs=False):
        loss = super().compute_loss(model, inputs, return_outputs)
        self.num_losses += 1
        overflows = self.num_losses in (2, 5) and dp.get_world_size() - 1 == RANK
        return loss * mindspore.tensor(float("inf")) if overflows else loss


@case
def overflowing():
    return trained(trainer_type=OverflowsOnTheLastRank)


@case
def resumed():
    dp.install(dp.DataParallelConfig(fp16_initial_scale=2.0**40, fp16_growth_interval=2))  # far too large at first
    try:
        arguments = dict(max_steps=30, output=OUTPUT / "whole", save_strategy="steps", save_steps=25, optim="adamw")
        trained(**arguments, learning_rate=1e-3)
        trainer = trainer_of(**{**arguments, "output": OUTPUT / "rest"}, learning_rate=1e-3)
        trainer.train(resume_from_checkpoint=str(OUTPUT / "whole" / "checkpoint-25"))
        return trainer
    finally:
        dp.install()


@case
def never_stopped():
    dp.install(dp.DataParallelConfig(fp16_initial_scale=2.0**40, fp16_growth_interval=2))
    try:
        return trained(max_steps=30, optim="adamw", learning_rate=1e-3)
    finally:
        dp.install()


if __name__ == "__main__":
    for name, train in CASES.items():
        trainer = train()
        watches, scores = trainer.watches, trainer.predict(tiny_dataset(num_rows=16, batch_size=4)).predictions
        np.savez(
            OUTPUT / f"{name}.rank{RANK}.npz",
            parameters=np.array(watches.parameters),
            rates=watches.rates,
            logs=watches.logs,
            scores=scores,
        )
