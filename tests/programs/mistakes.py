"""Mistakes users make on ranks, and data that each rank makes in its own way, as scripts do without knowing.

    python mistakes.py OUTPUT MISTAKE...

The last is to end the job. Each rank leaves what it is told of one before in OUTPUT/<mistake>.rank<r>.txt.
"""

import sys
from pathlib import Path

import mindnlp_dp_plugin as dp  # isort: skip

import mindspore
import numpy as np
from datasets import Dataset
from mindnlp.core import nn, ops
from mindnlp.engine import Trainer, TrainerCallback
from mindspore.dataset import GeneratorDataset

from tests.programs.noted import installed
from tests.programs.tiny import tiny_dataset, tiny_model, tiny_rows, tiny_trainer

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


def compares_rows_of_a_rank_alone():
    class InBatchNegatives(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False):
            hidden = model.bert(input_ids=inputs["input_ids"])[0]
            return nn.functional.cross_entropy(ops.matmul(hidden[:, 0], hidden[:, 1].T), ops.arange(len(hidden)))

    tiny_trainer(OUTPUT, trainer_type=InBatchNegatives).train()


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


# Data that differ


COLUMNS = ["input_ids", "labels"]
NAMES = ["ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen"]
NUMBER_OF = {name: number for number, name in enumerate(set(NAMES))}  # another order in each process


def tokens(num_rows=64):
    chance = np.random.default_rng(11)
    return [chance.integers(4, 96, 12).astype(np.int32) for _ in range(num_rows)]


def dataset(labels, rows=None, shuffle=True):
    rows = list(zip(tokens() if rows is None else rows, labels))
    return GeneratorDataset(rows, ["input_ids", "labels"], shuffle=shuffle)


def numbered_by_the_set():
    return [np.int32(NUMBER_OF[NAMES[row % 8]]) for row in range(64)]


def rows_of_a_set():
    texts = {" ".join(map(str, row)) for row in tokens()}
    return [np.array(text.split(), np.int32) for text in texts]


def labels_numbered_by_a_set():
    tiny_trainer(OUTPUT, model=tiny_model(num_labels=8), dataset=dataset(numbered_by_the_set()).batch(8)).train()


def rows_from_a_set():
    tiny_trainer(OUTPUT, dataset=dataset([np.int32(0)] * 64, rows_of_a_set()).batch(8)).train()


def filtered_rows_from_a_set():
    rows = dataset([np.int32(0)] * 64, rows_of_a_set(), shuffle=False).filter(lambda ids, labels: True)
    tiny_trainer(OUTPUT, dataset=rows.batch(8)).train()


def labels_of_evaluation_numbered_by_a_set():
    tiny_trainer(OUTPUT, model=tiny_model(num_labels=8)).evaluate(
        dataset(numbered_by_the_set(), shuffle=False).batch(8)
    )


def accumulation_by_rank():
    tiny_trainer(OUTPUT, gradient_accumulation_steps=1 + RANK).train()


def label_mapping_numbered_by_a_set():
    model = tiny_model(id2label={number: name for name, number in NUMBER_OF.items()}, label2id=NUMBER_OF)
    tiny_trainer(OUTPUT, model=model).train()


def evaluation_data_of_another_length():
    tiny_trainer(OUTPUT).evaluate(tiny_dataset(num_rows=24 - RANK))


def permuted_in_each_pass():
    def rows():
        every = list(zip(tokens(), map(np.int32, range(64))))
        yield from (every[number] for number in np.random.default_rng().permutation(64))

    tiny_trainer(OUTPUT, model=tiny_model(num_labels=64), dataset=GeneratorDataset(rows, COLUMNS).batch(8)).train()


def streamed_and_shuffled_without_a_seed():
    def rows():
        stream = Dataset.from_dict({"ids": tokens()}).to_iterable_dataset().shuffle(buffer_size=16)
        yield from ((np.array(row["ids"], np.int32), np.int32(row["ids"][0] % 3)) for row in stream)

    tiny_trainer(OUTPUT, dataset=GeneratorDataset(rows, COLUMNS).batch(8)).train()


def evaluated_in_an_order_of_its_own():
    def rows():
        every = list(zip(tokens(), map(np.int32, range(64))))
        yield from (every[number] for number in np.random.default_rng().permutation(64))

    tiny_trainer(OUTPUT, model=tiny_model(num_labels=64)).evaluate(GeneratorDataset(rows, COLUMNS).batch(8))


def opened_once():
    rows = iter(list(zip(tokens(), map(np.int32, [0, 1] * 32))))
    tiny_trainer(OUTPUT, dataset=GeneratorDataset(rows, COLUMNS).batch(8)).train()


class OrderedAtFirst:
    """Rows that each rank permutes from its twelfth pass on, the second epoch, behind the first 40 rows."""

    def __init__(self):
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        numbers = np.arange(64)
        if self.passes > 11:
            np.random.default_rng().shuffle(numbers[40:])
        every = list(zip(tokens(), map(np.int32, range(64))))
        return iter([every[number] for number in numbers])


def permuted_later():
    model, rows = tiny_model(num_labels=64), GeneratorDataset(OrderedAtFirst(), COLUMNS, shuffle=False)
    tiny_trainer(OUTPUT, model=model, dataset=rows.batch(8), max_steps=12).train()


class Renumbered:
    """Rows by number, which each rank numbers anew when its first epoch is over."""

    def __init__(self):
        self.rows = list(zip(tokens(), map(np.int32, range(64))))
        self.reads = 0

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        self.reads += 1
        if self.reads == 5 * 32 + 32:  # five readings of a sample, and a rank's half of the rows
            np.random.default_rng().shuffle(self.rows)
        return self.rows[number]


def renumbered_later():
    rows = GeneratorDataset(Renumbered(), COLUMNS, shuffle=True)
    tiny_trainer(OUTPUT, model=tiny_model(num_labels=64), dataset=rows.batch(8), max_steps=12).train()


# Rows that are random by design, on each rank by a generator of its own, are no mistake


def masked(share):
    """A map that replaces some of the tokens."""
    chance = np.random.default_rng(RANK)
    return lambda ids: np.where(chance.random(ids.shape) < share, np.int32(3), ids)


def rarely_reversed():
    """A map that leaves most rows alone."""
    chance = np.random.default_rng(RANK)
    return lambda ids: ids[::-1].copy() if chance.random() < 0.05 else ids


def random_rows():
    """Leaves a file for each way."""
    for number, operation in enumerate([masked(0.15), masked(0.01), rarely_reversed()]):
        for dataset in (tiny_rows(64, shuffle=True), tiny_rows(64).filter(lambda ids, labels: True)):
            augmented = dataset.map(operation, ["input_ids"]).batch(8)
            trainer = tiny_trainer(OUTPUT, dataset=augmented, max_steps=2)
            trainer.train()
            trainer.evaluate(augmented)
        (OUTPUT / f"trained_{number}.rank{RANK}").touch()


if __name__ == "__main__":
    *noted, last = sys.argv[2:]
    for mistake in noted:
        try:
            globals()[mistake]()
        except dp.DataParallelError as error:
            (OUTPUT / f"{mistake}.rank{RANK}.txt").write_text(str(error))
    globals()[last]()
    print("NOBODY NOTICED")
