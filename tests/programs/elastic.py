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
from mindnlp.engine import Trainer, TrainingArguments

from tests.programs.tiny import tiny_model, tiny_rows

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
    "by_length": (lambda size: of_many_lengths(size), [(1, 4, 3)], (1,)),
    "a_step_an_epoch": (lambda size: tiny_rows(12, shuffle=True).batch(size), [(1, 6, 2)], (1,)),
}


def of_many_lengths(batch_size):
    chance = np.random.default_rng(7)
    lengths = chance.integers(3, 13, 48)
    rows = [
        (chance.integers(4, 96, length).astype(np.int32), np.ones(length, np.int32), np.int32(chance.integers(3)))
        for length in lengths
    ]
    padding = dp.DynamicPadding({"input_ids": 0, "attention_mask": 0})
    source = mindspore.dataset.GeneratorDataset(rows, ["input_ids", "attention_mask", "labels"])
    return source.batch(batch_size, per_batch_map=padding, input_columns=padding.columns)


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
    arguments = TrainingArguments(
        output_dir=str(OUTPUT / (f"{case}_resumed" if resume else case)),
        num_train_epochs=2,
        gradient_accumulation_steps=accumulation,
        group_by_length=case == "by_length",
        save_strategy="no" if resume else "steps",
        save_steps=1,
        logging_steps=1,
        learning_rate=1e-2,
        adam_epsilon=1e-4,  # else Adam turns the rounding noise of true zeros (key biases) into full steps
        lr_scheduler_type="cosine",
        max_grad_norm=0.5,
        disable_tqdm=True,
    )
    if resume:
        mindspore.set_seed(100)  # nothing of what is in memory may matter
    model = tiny_model(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    trainer = NotesRows(model, arguments, train_dataset=rows(batch_size))
    trainer.train(resume_from_checkpoint=resume)
    read = sum(dp.all_gather_object(trainer.rows), [])
    if not dp.is_main_process():
        return
    name = f"{case}.{'-'.join(map(str, split))}.from_{Path(resume).name}" if resume else f"{case}.whole"
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    np.savez(OUTPUT / f"{name}.npz", *[parameter.asnumpy() for parameter in model.parameters()])
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
