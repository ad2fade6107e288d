"""Data that each rank makes in its own way, as scripts do without knowing: python differing_data.py OUTPUT.

Each function is a mistake. Rank 0 leaves OUTPUT/<function>.txt with the error it ends in. Then ranks train on rows that
may differ.
"""

import sys
from pathlib import Path

import numpy as np
from datasets import Dataset
from mindspore.dataset import GeneratorDataset

import mindnlp_dp_plugin as dp
from tests.programs import random_rows
from tests.programs.tiny import tiny_dataset, tiny_model, tiny_trainer

OUTPUT = Path(sys.argv[1])
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
    tiny_trainer(OUTPUT, gradient_accumulation_steps=1 + dp.get_rank()).train()


def label_mapping_numbered_by_a_set():
    model = tiny_model(id2label={number: name for name, number in NUMBER_OF.items()}, label2id=NUMBER_OF)
    tiny_trainer(OUTPUT, model=model).train()


def evaluation_data_of_another_length():
    tiny_trainer(OUTPUT).evaluate(tiny_dataset(num_rows=24 - dp.get_rank()))


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
    """Rows that each rank permutes from its fifth pass on, behind the first 40: a sample before training is equal."""

    def __init__(self):
        self.passes = 0

    def __iter__(self):
        self.passes += 1
        numbers = np.arange(64)
        if self.passes > 4:
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
        if self.reads == 3 * 32 + 32:  # three readings of the sample, and a rank's half of the rows
            np.random.default_rng().shuffle(self.rows)
        return self.rows[number]


def renumbered_later():
    rows = GeneratorDataset(Renumbered(), COLUMNS, shuffle=True)
    tiny_trainer(OUTPUT, model=tiny_model(num_labels=64), dataset=rows.batch(8), max_steps=12).train()


MISTAKES = [
    permuted_later,
    renumbered_later,
    permuted_in_each_pass,
    streamed_and_shuffled_without_a_seed,
    evaluated_in_an_order_of_its_own,
    opened_once,
    labels_numbered_by_a_set,
    rows_from_a_set,
    filtered_rows_from_a_set,
    labels_of_evaluation_numbered_by_a_set,
    accumulation_by_rank,
    label_mapping_numbered_by_a_set,
    evaluation_data_of_another_length,
]

if __name__ == "__main__":
    for mistake in MISTAKES:
        try:
            mistake()
        except dp.DataParallelError as error:
            if dp.is_main_process():
                (OUTPUT / f"{mistake.__name__}.txt").write_text(str(error))
    random_rows.train(OUTPUT)
