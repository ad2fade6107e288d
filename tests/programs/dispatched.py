"""Train and score on sources that rank 0 alone can read: ``python dispatched.py OUTPUT NUM_RANKS``.

On ranks the last source raises. Started alone, one process takes the batches of NUM_RANKS ranks at once. Leaves
``OUTPUT/<case>.json``: the rows of each step in the order of ranks, how many rows each rank took of its source, losses,
scores; and ``.npz``: the parameters.
"""

import mindnlp_dp_plugin as dp  # isort: skip

import json
import sys
from pathlib import Path

import mindspore
import numpy as np
from mindnlp.core import value_and_grad
from mindnlp.core.optim import AdamW
from mindnlp.engine import Trainer
from mindspore.dataset import GeneratorDataset

from mindnlp_dp_plugin import collectives
from tests.programs.noted import weights_of
from tests.programs.tiny import Digests, tiny_trainer, without_dropout

OUTPUT, NUM_RANKS = Path(sys.argv[1]), int(sys.argv[2])
ALONE = dp.get_world_size() == 1
BATCH_SIZE = 2 * NUM_RANKS if ALONE else 2
COLUMNS = ["input_ids", "labels"]


def rows(num_rows):
    """The first token of a row is its number."""
    chance = np.random.default_rng(7)
    return [
        (np.array([4 + row, *chance.integers(4, 96, 11)], np.int32), np.int32(chance.integers(3)))
        for row in range(num_rows)
    ]


class Source:
    """Counts the rows that it gives."""

    def __init__(self, num_rows):
        self.rows, self.num_given = rows(num_rows), 0

    def give(self, numbers):
        for number in numbers:
            self.num_given += 1
            yield self.rows[number]

    def batched(self, **options):
        return GeneratorDataset(self, COLUMNS, shuffle=False).batch(BATCH_SIZE, **options)


class Once(Source):
    """As an open file: goes on where it was left, and then has no more."""

    def __iter__(self):
        return self

    def __next__(self):
        if self.num_given == len(self.rows):
            raise StopIteration
        self.num_given += 1
        return self.rows[self.num_given - 1]


class OwnOrder(Source):
    """Another order in each pass, and on each rank; in one process that of rank 0."""

    def __init__(self, num_rows):
        super().__init__(num_rows)
        self._chance = np.random.default_rng(3 + dp.get_rank())

    def __iter__(self):
        return self.give(self._chance.permutation(len(self.rows)))


class OrderOfEpoch(Source):
    """An order for each epoch, which it has to be told, as ``datasets.IterableDataset`` has."""

    def __init__(self, num_rows):
        super().__init__(num_rows)
        self._epoch = None

    def set_epoch(self, epoch):
        self._epoch = epoch

    def __iter__(self):
        return self.give(np.random.default_rng(self._epoch).permutation(len(self.rows)))


class NotesRows(Trainer):
    """Notes the rows of each micro-step."""

    def training_step(self, model, inputs):
        noted.append(numbers(inputs["input_ids"]))
        return super().training_step(model, inputs)


noted = []


def numbers(tokens):
    return (tokens.asnumpy()[:, 0] - 4).tolist()


def train(name, source, dataset=None, resume=None, eval_dataset=None, is_by_stock=False, **arguments):
    noted.clear()
    dp.install(dp.DataParallelConfig(dispatch_batches=not is_by_stock))
    digests = Digests()
    settings = dict(logging_steps=1, save_strategy="no", adam_epsilon=1e-4, learning_rate=1e-3)
    trainer = tiny_trainer(
        OUTPUT / name,
        model=without_dropout(),
        dataset=source.batched() if dataset is None else dataset,  # its truth is its length
        trainer_type=NotesRows,
        callbacks=[digests],
        **{**settings, **arguments},
    )
    trainer.eval_dataset = eval_dataset
    trainer.train(resume_from_checkpoint=resume)
    leave(name, source, trainer.model, log=[entry for entry in trainer.state.log_history if "loss" in entry],
          scores=[entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry],
          digests=digests.found)  # fmt: skip


def leave(name, source, model, **found):
    group = collectives.current()
    steps = [sum(turn, []) for turn in zip(*group.all_gather_object(noted))]
    given = group.all_gather_object(source.num_given)
    digests = group.all_gather_object(found.get("digests"))
    assert all(theirs == digests[0] for theirs in digests), "ranks differ"
    if dp.is_main_process():
        (OUTPUT / f"{name}.json").write_text(json.dumps({"steps": steps, "given": given, **found}))
        np.savez(OUTPUT / f"{name}.npz", *weights_of(model))
    dp.barrier()


def once():
    """One process is MindNLP alone, on rows it can read as often as it likes; it would count those of a stream away."""
    source = Once(20 * NUM_RANKS)
    listed = GeneratorDataset(source.rows, COLUMNS, shuffle=False).batch(BATCH_SIZE)
    train("once", source, listed if ALONE else source.batched(), max_steps=6, is_by_stock=ALONE)


def runs_out():
    """It has less than is asked for."""
    train("runs_out", Once(6 * NUM_RANKS), max_steps=9)


def own_order():
    train("own_order", OwnOrder(12 * NUM_RANKS), max_steps=-1, num_train_epochs=2)


def shuffled():
    """The pipeline draws the order, each epoch anew."""
    source = Source(num_rows := 12 * NUM_RANKS)
    in_order = GeneratorDataset(lambda: source.give(range(num_rows)), COLUMNS, shuffle=False)
    train("shuffled", source, in_order.shuffle(num_rows).batch(BATCH_SIZE), max_steps=-1, num_train_epochs=2)


def accumulated():
    train(
        "accumulated",
        OwnOrder(12 * NUM_RANKS),
        max_steps=-1,
        num_train_epochs=2,
        gradient_accumulation_steps=2,
    )


def uneven():
    """In the last turn one batch is left."""
    train("uneven", OwnOrder(2 * (2 * NUM_RANKS + 1)), max_steps=-1, num_train_epochs=2)


def dropped():
    source = OwnOrder(2 * (2 * NUM_RANKS + 1))
    train("dropped", source, source.batched(drop_remainder=True), max_steps=-1, num_train_epochs=2)


def resumed():
    told = dict(max_steps=-1, num_train_epochs=3, evaluation_strategy="epoch")
    told["eval_dataset"] = OwnOrder(5).batched()
    train("whole", OrderOfEpoch(10 * NUM_RANKS), save_steps=7, save_strategy="steps", **told)
    mindspore.set_seed(100)  # nothing of what is in memory may matter
    train("resumed", OrderOfEpoch(10 * NUM_RANKS), resume=str(OUTPUT / "whole/checkpoint-7"), **told)


def endless():
    """A generator function without an end, of which MindSpore would never know the length."""
    source = Source(90)

    def generate():
        while True:
            yield from source.give(range(90))

    train("endless", source, GeneratorDataset(generate, COLUMNS, shuffle=False).batch(BATCH_SIZE), max_steps=3)


def scored():
    dp.install(dp.DataParallelConfig(dispatch_batches=True))
    source = Once(4 * (2 * NUM_RANKS + 1) - 1)  # in the last turn one batch, of one row less
    trainer = tiny_trainer(OUTPUT / "scored", model=without_dropout())
    output = trainer.predict(GeneratorDataset(source, COLUMNS, shuffle=False).batch(4))
    empty = trainer.evaluate(GeneratorDataset(source, COLUMNS, shuffle=False).batch(4))
    noted.clear()
    found = {"predictions": output.predictions.tolist(), "labels": output.label_ids.tolist()}
    leave("scored", source, trainer.model, **found, loss=output.metrics["test_loss"], is_empty="eval_loss" not in empty)


def own_loop():
    noted.clear()
    dp.install(dp.DataParallelConfig(dispatch_batches=True))
    model, source = without_dropout(), OwnOrder(12 * NUM_RANKS)
    mindspore.set_seed(42)
    optimizer = AdamW(list(model.parameters()), lr=1e-3, eps=1e-4)
    data = source.batched()
    model, optimizer, data = dp.prepare(model, optimizer, data)
    step = value_and_grad(lambda batch: model(**batch)["loss"], list(model.parameters()), attach_grads=True)
    for _ in range(2):
        for batch in data.create_dict_iterator():
            noted.append(numbers(batch["input_ids"]))
            optimizer.zero_grad()
            step(batch)
            optimizer.step()
    leave("own_loop", source, model)


def raises():
    class Broken(Once):
        def __next__(self):
            if self.num_given == 7:
                raise ValueError("row 7 is torn")
            return super().__next__()

    train("raises", source := Broken(20 * NUM_RANKS), source.batched(), max_steps=40)


if __name__ == "__main__":
    for case in (once, runs_out, own_order, shuffled, accumulated, uneven, dropped, endless, resumed, scored, own_loop):
        case()
    if not ALONE:
        raises()
