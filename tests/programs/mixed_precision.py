"""Train with ``fp16=True``, and leave what each case ended with in ``OUTPUT/<case>.rank<r>.npz``.

    python mixed_precision.py OUTPUT NUM_RANKS [CASE ...]

Started alone, one process takes the batches of NUM_RANKS ranks at once.
"""

import sys
from collections import Counter
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import nn
from mindnlp.engine import Trainer, TrainerCallback
from mindnlp.transformers import AlbertConfig, AlbertForMaskedLM, BertForSequenceClassification
from mindspore.dataset import GeneratorDataset

import mindnlp_dp_plugin as dp
from tests.programs.noted import flat, installed
from tests.programs.tiny import (
    NO_DROPOUT,
    SIZES,
    of_many_lengths,
    seed_everything,
    tiny_dataset,
    tiny_trainer,
    with_frozen_embeddings,
    with_lora,
    without_dropout,
)

OUTPUT, NUM_RANKS = Path(sys.argv[1]), int(sys.argv[2])
RANK = dp.get_rank()
IS_ALONE = dp.get_world_size() == 1
BATCH_SIZE = 8 * NUM_RANKS // dp.get_world_size()
TOO_LARGE = dict(fp16_initial_scale=2.0**40, fp16_growth_interval=2)  # at first
STOPPED = dict(max_steps=30, save_strategy="steps", save_steps=25, optim="adamw", learning_rate=1e-3)
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


def trainer_of(output=OUTPUT / "trainer", model=None, dataset=None, trainer_type=Trainer, callbacks=(), **arguments):
    # SGD: Adam divides by the gradient's own size, and so makes a step of what was rounding.
    options = dict(fp16=True, optim="sgd", learning_rate=0.05, max_steps=6, logging_steps=1)
    model = model or without_dropout()
    dataset = dataset or tiny_dataset(num_rows=8 * NUM_RANKS * 6, batch_size=BATCH_SIZE)
    watches = Watches()
    trainer = tiny_trainer(output, model, dataset, trainer_type, [watches, *callbacks], **{**options, **arguments})
    trainer.watches, trainer.left = watches, {}
    return trainer


def trained(**options):
    trainer = trainer_of(**options)
    trainer.train()
    return trainer


def scores(trainer):
    return trainer.predict(tiny_dataset(num_rows=16, batch_size=4)).predictions


@case
def plain():
    trainer = trainer_of()
    before = scores(trainer)
    trainer.train()
    trainer.left = {"scores_before": before, "scores": scores(trainer)}
    return trainer


@case
def in_float32():
    trainer = trainer_of(fp16=False)
    trainer.watches.on_log = lambda *args, **kwargs: None
    trainer.left = {"scores_before": scores(trainer)}
    trainer.train()
    return trainer


@case
def evaluated_in_float16_between():
    """With the model's weights rounded for the time of it."""
    trainer = trainer_of(fp16_full_eval=True, max_steps=3)
    trainer.train()
    trained_so_far = flat(trainer.model)
    trainer.left = {"scores": scores(trainer)}
    np.testing.assert_array_equal(flat(trainer.model), trained_so_far)
    trainer.train()
    assert not np.array_equal(flat(trainer.model), trained_so_far)
    return trainer


@case
def accumulated():
    return trained(gradient_accumulation_steps=2, max_steps=3)


@case
def growing():
    with installed(fp16_initial_scale=1024, fp16_growth_interval=2):
        return trained()


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


class OneGradientIsInfinite(Trainer):
    """In one of each two steps, chosen by chance: one number of one parameter's gradient, on one rank."""

    chance, steps = np.random.default_rng(3), []

    def compute_loss(self, model, inputs, return_outputs=False):
        loss = super().compute_loss(model, inputs, return_outputs)
        parameters = list(model.parameters())
        strikes = not self.steps[-1] if len(self.steps) % 2 else bool(self.chance.integers(2))
        self.steps.append(strikes)
        rank, which = self.chance.integers(dp.get_world_size()), self.chance.integers(len(parameters))
        place = self.chance.random()  # ranks draw alike
        if not (strikes and rank == RANK):
            return loss
        parameter = parameters[which]
        largest = np.zeros(parameter.shape, np.float32)
        largest.flat[int(place * largest.size)] = 3e38  # times the scale: infinite
        return loss + ((parameter - mindspore.ops.stop_gradient(parameter)) * mindspore.Tensor(largest)).sum()


@case
def struck_at_random():
    with installed(fp16_growth_interval=1):  # each two steps leave the scale as it was
        model = without_dropout(hidden_size=8, intermediate_size=8, num_hidden_layers=1)
        num_steps = {1: 2, 2: 60}.get(dp.get_world_size(), 200)  # half of them are struck
        trainer = trained(model=model, trainer_type=OneGradientIsInfinite, max_steps=num_steps, learning_rate=1e-3)
    trainer.left["strikes"] = trainer.steps
    return trainer


@case
def adapters():
    return trained(model=with_lora(without_dropout()), learning_rate=0.5)


@case
def frozen_embeddings():
    return trained(model=with_frozen_embeddings(without_dropout()))


@case
def tied_weights():
    """ALBERT's layers are one; its output layer, in float16, has the table of embeddings, looked up in float32."""
    seed_everything(3)
    model = AlbertForMaskedLM(AlbertConfig(**SIZES, **NO_DROPOUT, embedding_size=32))
    assert model.predictions.decoder.weight is model.get_input_embeddings().weight
    chance = np.random.default_rng(7)
    rows = [(words := chance.integers(4, 96, 12).astype(np.int32), words) for _ in range(8 * NUM_RANKS * 6)]
    dataset = GeneratorDataset(rows, ["input_ids", "labels"], shuffle=False).batch(BATCH_SIZE)
    casts, stock = Counter(), nn.Parameter.astype

    def astype(parameter, dtype):
        if dtype == mindspore.float16:
            casts[id(parameter)] += 1
        return stock(parameter, dtype)

    nn.Parameter.astype = astype
    try:
        trainer = trained(model=model, dataset=dataset)
    finally:
        del nn.Parameter.astype
    trainer.left["casts"] = list(casts.values())
    return trainer


@case
def grouped_by_length():
    return trained(dataset=of_many_lengths(8 * NUM_RANKS * 6, BATCH_SIZE), group_by_length=True)


class FocalLoss(Trainer):
    """Rows that the model is sure of count less (Lin et al., arXiv:1708.02002)."""

    def compute_loss(self, model, inputs, return_outputs=False):
        outputs = model(input_ids=inputs["input_ids"])
        losses = nn.functional.cross_entropy(outputs.logits, inputs["labels"], reduction="none")
        loss = ((1 - mindspore.ops.exp(-losses)) ** 2 * losses).mean()
        return (loss, outputs) if return_outputs else loss


@case
def own_loss():
    return trained(trainer_type=FocalLoss)


@case
def loaded_in_float16():
    """It trains as float32, also in its checkpoints, and is float16 again in the end."""
    folder = OUTPUT / f"float16.of_rank{RANK}"
    without_dropout().save_pretrained(folder)
    model = BertForSequenceClassification.from_pretrained(folder, ms_dtype=mindspore.float16)
    parameters = list(model.parameters())
    trainer = trained(model=model, output=OUTPUT / "of_float16", save_strategy="steps", save_steps=6)
    assert all(parameter is before for parameter, before in zip(model.parameters(), parameters))
    assert {parameter.dtype for parameter in parameters} == {mindspore.float16}
    trainer.save_model(str(folder))
    return trainer


@case
def never_stopped():
    with installed(**TOO_LARGE):
        return trained(**STOPPED, output=OUTPUT / "whole")


@case
def resumed():
    """From a checkpoint of ``never_stopped``."""
    with installed(**TOO_LARGE):
        trainer = trainer_of(**STOPPED, output=OUTPUT / "rest")
        trainer.train(resume_from_checkpoint=str(OUTPUT / "whole" / "checkpoint-25"))
        return trainer


if __name__ == "__main__":
    for name in sys.argv[3:] or CASES:
        trainer = CASES[name]()
        watches = trainer.watches
        np.savez(
            OUTPUT / f"{name}.rank{RANK}.npz",
            parameters=np.array(watches.parameters),
            rates=watches.rates,
            logs=watches.logs,
            **trainer.left,
        )
