"""Go on in the middle of an epoch with other numbers of ranks, batch sizes and accumulations.

    python elastic.py OUTPUT

On 2 ranks it first trains each case without a stop. Leaves ``OUTPUT/<case>.<split>.json``: what training ended with.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.engine import Trainer

from tests.programs.noted import weights_of
from tests.programs.tiny import of_many_lengths, tiny_rows, tiny_trainer, without_dropout

OUTPUT = Path(sys.argv[1])
NUM_RANKS = dp.get_world_size()
WHOLE = (2, 2, 3)  # ranks, batch size, accumulation: 12 rows in a step, 48 in an epoch
CASES = {
    "by_row": (
        lambda size: tiny_rows(48, shuffle=True).batch(size),
        [(2, 6, 1), (1, 4, 3), (1, 12, 1), (3, 2, 2)],
        (1,),
    ),
    "by_batch": (
        lambda size: tiny_rows(48, shuffle=True).filter(lambda ids: True, ["input_ids"]).batch(size),
        [(1, 2, 6), (3, 2, 2)],
        (6,),
    ),
    "by_length": (lambda size: of_many_lengths(48, size), [(1, 4, 3)], (1,)),
    "a_step_an_epoch": (lambda size: tiny_rows(12, shuffle=True).batch(size), [(1, 6, 2)], (1,)),
}


class NotesRows(Trainer):
    """Notes the rows of each step."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.rows = []

    def training_step(self, model, inputs):
        for ids in inputs["input_ids"].asnumpy():
            self.rows.append((self.state.global_step, ids[ids > 0].tolist()))
        return super().training_step(model, inputs)


def train(case, split, resume=None):
    rows, _, _ = CASES[case]
    _, batch_size, accumulation = split
    settings = dict(max_steps=-1, num_train_epochs=2, gradient_accumulation_steps=accumulation, logging_steps=1)
    settings |= dict(group_by_length=case == "by_length", save_strategy="no" if resume else "steps", save_steps=1)
    settings |= dict(learning_rate=1e-2, lr_scheduler_type="cosine", max_grad_norm=0.5)
    settings["adam_epsilon"] = 1e-4  # else Adam turns the rounding noise of true zeros (key biases) into full steps
    if resume:
        mindspore.set_seed(100)  # nothing of what is in memory may matter
    folder = OUTPUT / (f"{case}_resumed" if resume else case)
    trainer = tiny_trainer(folder, without_dropout(), rows(batch_size), NotesRows, **settings)
    trainer.train(resume_from_checkpoint=resume)
    read = sum(dp.all_gather_object(trainer.rows), [])
    if not dp.is_main_process():
        return
    name = f"{case}.{'-'.join(map(str, split))}.from_{Path(resume).name}" if resume else f"{case}.whole"
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    np.savez(OUTPUT / f"{name}.npz", *weights_of(trainer.model))
    (OUTPUT / f"{name}.json").write_text(json.dumps({"rows": read, "log": log}))


if __name__ == "__main__":
    for case, (_, splits, steps) in CASES.items():
        if WHOLE[0] == NUM_RANKS:
            train(case, WHOLE)
            dp.barrier()
        for split in splits:
            if split[0] == NUM_RANKS:
                for step in steps:
                    train(case, split, str(OUTPUT / case / f"checkpoint-{step}"))
