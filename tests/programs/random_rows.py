"""Rows that are random by design, on each rank by a generator of its own."""

from pathlib import Path

import numpy as np

import mindnlp_dp_plugin as dp
from tests.programs.tiny import tiny_rows, tiny_trainer

RANK = dp.get_rank()


def masked(share):
    """A map that replaces some of the tokens."""
    chance = np.random.default_rng(RANK)
    return lambda ids: np.where(chance.random(ids.shape) < share, np.int32(3), ids)


def rarely_reversed():
    """A map that leaves most rows alone."""
    chance = np.random.default_rng(RANK)
    return lambda ids: ids[::-1].copy() if chance.random() < 0.05 else ids


def train(output: Path) -> None:
    """Leave a file for each way in which rows are random."""
    for number, operation in enumerate([masked(0.15), masked(0.01), rarely_reversed()]):
        for dataset in (tiny_rows(64, shuffle=True), tiny_rows(64).filter(lambda ids, labels: True)):
            augmented = dataset.map(operation, ["input_ids"]).batch(8)
            trainer = tiny_trainer(output, dataset=augmented, max_steps=2)
            trainer.train()
            trainer.evaluate(augmented)
        (output / f"trained_{number}.rank{RANK}").touch()
