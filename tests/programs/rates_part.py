"""Ranks whose optimizers come to step with other numbers: ``python rates_part.py OUTPUT WAY...``.

Each rank leaves what it is told of a way in OUTPUT/<way>.rank<r>.txt; nothing if it ends well.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import value_and_grad
from mindnlp.core.optim import SGD
from mindnlp.core.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau
from mindnlp.engine import TrainerCallback
from mindspore.dataset import GeneratorDataset

from tests.programs.tiny import tiny_dataset, tiny_model, tiny_trainer

OUTPUT, *WAYS = sys.argv[1:]
RANK = dp.get_rank()


class SetsTheRate(TrainerCallback):
    def on_step_end(self, args, state, control, optimizer=None, **kwargs):
        if state.global_step == 2:
            optimizer.param_groups[1]["weight_decay"] = 0.1 * (1 + RANK)


def loop(after_step, epochs=3, scheduler_of=None, leaves_at=None):
    model = tiny_model()
    optimizer = SGD(list(model.parameters()), lr=0.1)
    rows = tiny_dataset(32, 4)
    scheduler = [scheduler_of(optimizer, rows)] if scheduler_of else []
    model, optimizer, rows, *scheduler = dp.prepare(model, optimizer, rows, *scheduler)
    gradients = value_and_grad(lambda batch: model(**batch).loss, list(model.parameters()), attach_grads=True)
    for _ in range(epochs):
        for number, batch in enumerate(rows.create_dict_iterator()):
            loss = gradients(batch)
            optimizer.step()
            optimizer.zero_grad()
            after_step(model, optimizer, loss, *scheduler)
            if number == leaves_at:
                break


def plateau(loss_of):
    def after_step(model, optimizer, loss, scheduler):
        scheduler.step(loss_of(loss).item())

    loop(after_step, scheduler_of=lambda optimizer, rows: ReduceLROnPlateau(optimizer, patience=0))


def plateau_by_rank():
    plateau(lambda loss: loss)


def plateau_by_all():
    plateau(lambda loss: dp.global_mean(loss, 1))


def rate_by_rank():
    def after_step(model, optimizer, loss):
        optimizer.param_groups[0]["lr"] = 0.1 + 0.01 * RANK

    loop(after_step)


def changes_a_parameter(model, optimizer, loss):
    if RANK == 1:
        weight = model.classifier.weight
        weight.assign_value(weight + mindspore.tensor(1e-3))


def padded_apart():
    rows = [(np.arange(4, 4 + length, dtype=np.int32), np.int32(length % 3)) for length in range(3, 19)]
    dataset = GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False)
    model = tiny_model()
    optimizer = SGD(list(model.parameters()), lr=0.1)
    padded = dataset.padded_batch(4, pad_info={"input_ids": ([None], 0)})
    model, optimizer, padded = dp.prepare(model, optimizer, padded)
    gradients = value_and_grad(lambda batch: model(**batch).loss, list(model.parameters()), attach_grads=True)
    for batch in padded.create_dict_iterator():
        gradients(batch)
        optimizer.step()
        optimizer.zero_grad()


def parameter_by_rank():
    loop(changes_a_parameter)


def parameter_by_rank_at_the_end():
    loop(changes_a_parameter, epochs=1, leaves_at=2)


def callback():
    tiny_trainer(OUTPUT, callbacks=[SetsTheRate()], max_steps=6).train()


def length_before():
    def linear(optimizer, rows):
        steps = len(rows) * 3
        return LambdaLR(optimizer, lambda step: max(0.0, 1 - step / steps))

    loop(lambda model, optimizer, loss, scheduler: scheduler.step(), scheduler_of=linear)


for way in WAYS:
    told = ""
    try:
        globals()[way]()
    except dp.DataParallelError as error:
        told = str(error)
    Path(OUTPUT, f"{way}.rank{RANK}.txt").write_text(told)
