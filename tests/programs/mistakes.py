"""Mistakes users make on ranks: python mistakes.py OUTPUT MISTAKE...

The last is to end the job. Each rank leaves what it is told of one before in OUTPUT/<mistake>.rank<r>.txt.
"""

import sys
from pathlib import Path

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore
import numpy as np
from mindnlp.core import nn, ops
from mindnlp.engine import TrainerCallback

from tests.programs.noted import installed
from tests.programs.tiny import tiny_dataset, tiny_model, tiny_trainer

RANK = dp.get_rank()
OUTPUT = Path(sys.argv[1])


def other_shape():
    tiny_trainer(OUTPUT, model=tiny_model(intermediate_size=64 + RANK)).train()


def other_parameter():
    model = tiny_model()
    if RANK == 1:
        model.extra = nn.Parameter(ops.zeros(3))
    tiny_trainer(OUTPUT, model=model).train()


def other_length():
    tiny_trainer(OUTPUT, dataset=tiny_dataset(num_rows=64 - RANK)).train()


def too_few_rows():
    tiny_trainer(OUTPUT, dataset=tiny_dataset(num_rows=15, batch_size=8, drop_remainder=True)).train()


def raises_on_rank_1():
    class Raise(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if RANK == 1 and state.global_step == 2:
                raise LookupError("the user's own mistake")

    tiny_trainer(OUTPUT, callbacks=[Raise()]).train()


def plant(model):
    """Change one weight on rank 1, by as little as can be."""
    weight = model.bert.pooler.dense.weight
    if RANK == 1:
        values = weight.asnumpy().copy()
        values[3, 4] = np.nextafter(values[3, 4], np.float32(9))
        ops.assign(weight, mindspore.Tensor(values))


def planted_divergence():
    class Plant(TrainerCallback):
        def on_train_end(self, args, state, control, model=None, **kwargs):
            plant(model)

    trainer = tiny_trainer(OUTPUT, callbacks=[Plant()])
    trainer.train()
    dp.check_replicas(trainer.model)


def planted_in_training():
    class Plant(TrainerCallback):
        def on_step_end(self, args, state, control, model=None, **kwargs):
            if state.global_step == 3:
                plant(model)

    with installed(check_replicas_every=2):
        # At a rate of 0 the optimizer leaves the weights alone: what differs is what was planted.
        tiny_trainer(OUTPUT, callbacks=[Plant()], max_steps=9, learning_rate=0.0).train()


if __name__ == "__main__":
    *noted, last = sys.argv[2:]
    for mistake in noted:
        try:
            globals()[mistake]()
        except dp.DataParallelError as error:
            (OUTPUT / f"{mistake}.rank{RANK}.txt").write_text(str(error))
    globals()[last]()
    print("NOBODY NOTICED")
