"""Train each scenario without a stop, then once more from each of its checkpoints, and leave what both ended with.

    python resume_scenarios.py OUTPUT

Leaves ``OUTPUT/<scenario>.json``: for ``whole`` and for each checkpoint, what each rank ended with.
"""

import hashlib
import json
import random
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn
from mindnlp.engine import EarlyStoppingCallback, Trainer, TrainingArguments
from mindspore.dataset import GeneratorDataset

import mindnlp_dp_plugin as dp
from tests.programs.tiny import tiny_dataset, tiny_model

OUTPUT = Path(sys.argv[1])
ROWS_PER_BATCH = 4


class DropsLayersOnTheHost(nn.Module):
    """A classifier whose forward draws from NumPy and Python, as LayerDrop does."""

    def __init__(self):
        super().__init__()
        self.classifier = tiny_model()

    def forward(self, input_ids, labels):
        outputs = self.classifier(input_ids=input_ids, labels=labels)
        return {"loss": outputs.loss * (1 + np.random.rand() + random.random()), "logits": outputs.logits}


def shuffled_rows(num_micro_steps):
    chance = np.random.default_rng(7)
    rows = [
        (chance.integers(4, 96, 12).astype(np.int32), np.int32(chance.integers(3)))
        for _ in range(num_micro_steps * ROWS_PER_BATCH * 2)
    ]
    return GeneratorDataset(rows, ["input_ids", "labels"], shuffle=True)


def shuffled(num_micro_steps):
    """As many micro-steps an epoch on 2 ranks, of rows in a new order each epoch."""
    return shuffled_rows(num_micro_steps).batch(ROWS_PER_BATCH)


def filtered(num_micro_steps):
    """Dealt out by batch."""
    return shuffled_rows(num_micro_steps).filter(lambda ids: True, ["input_ids"]).batch(ROWS_PER_BATCH)


SCENARIOS = {
    "two_epochs": dict(num_train_epochs=2, save_steps=2, max_grad_norm=0.1, dataset=lambda: shuffled(6)),
    # 10 micro-steps an epoch: the third step of an accumulation of 4 spans two epochs.
    "accumulated": dict(max_steps=5, gradient_accumulation_steps=4, dataset=lambda: shuffled(10)),
    "accumulated_saved_at_epoch_ends": dict(
        max_steps=7,
        gradient_accumulation_steps=4,
        save_strategy="epoch",
        evaluation_strategy="epoch",
        lr_scheduler_type="reduce_lr_on_plateau",
        lr_scheduler_kwargs={"patience": 0, "mode": "max"},
        metric_for_best_model="loss",
        dataset=lambda: shuffled(10),
    ),
    "by_batch": dict(max_steps=6, save_steps=2, dataset=lambda: filtered(3)),
    "host_random": dict(max_steps=3, dataset=lambda: shuffled(3), model=DropsLayersOnTheHost),
    "stops_early": dict(
        max_steps=9,
        evaluation_strategy="steps",
        eval_steps=1,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
        greater_is_better=True,  # it falls, so the patience ends after a few steps
        dataset=lambda: shuffled(3),
        patience=3,
    ),
    "sgd": dict(max_steps=4, save_steps=2, dataset=lambda: shuffled(5), optim="sgd", learning_rate=0.1),
}


def ended_with(trainer, result):
    digest = hashlib.sha256()
    for parameter in trainer.model.parameters():
        digest.update(parameter.asnumpy().tobytes())
    state = trainer.state
    return {
        "parameters": digest.hexdigest(),
        "step": state.global_step,
        "epoch": state.epoch,
        "loss": result.training_loss,
        "learning_rates": [entry["learning_rate"] for entry in state.log_history if "learning_rate" in entry][-1:],
    }


def train(output, dataset, model=tiny_model, resume=None, patience=None, **changes):
    defaults = dict(save_strategy="steps", save_steps=1, logging_steps=3, learning_rate=1e-3, disable_tqdm=True)
    arguments = TrainingArguments(output_dir=str(output), **{**defaults, **changes})
    network = model()
    if resume:  # nothing of what is in memory may matter
        mindspore.set_seed(100 + dp.get_rank())
        network = model()
    trainer = Trainer(network, arguments, train_dataset=dataset(), eval_dataset=tiny_dataset(num_rows=8))
    if patience:
        trainer.add_callback(EarlyStoppingCallback(patience))
    np.random.seed(17 + dp.get_rank())
    random.seed(17 + dp.get_rank())
    if resume:
        np.random.seed(99)
        random.seed(99)
    result = trainer.train(resume_from_checkpoint=resume)
    dp.check_replicas(trainer.model)
    return ended_with(trainer, result)


def run(name, scenario):
    whole = OUTPUT / name
    ends = {"whole": train(whole, **scenario)}
    for folder in sorted(whole.glob("*"), key=lambda folder: int(folder.name.split("-")[1])):
        ends[folder.name] = train(OUTPUT / f"{name}_resumed", resume=str(folder), **scenario)
    of_ranks = dp.all_gather_object(ends)
    if dp.is_main_process():
        (OUTPUT / f"{name}.json").write_text(json.dumps(of_ranks))


if __name__ == "__main__":
    for name in sys.argv[2:] or SCENARIOS:
        run(name, SCENARIOS[name])
