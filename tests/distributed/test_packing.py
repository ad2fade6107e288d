"""Packed chats on ranks: one process with N times the batch, resumed in the middle of an epoch."""

import json

import numpy as np
import pytest

from tests.distributed.jobs import jobs

ROUNDING = 4e-6


@pytest.fixture(scope="module", params=jobs((2, "mpi")), ids=str)
def both(request, in_turn):
    """The folders of ranks and of one process."""
    ranks, backend = request.param
    return in_turn("packed.py", ranks, backend), in_turn("packed.py", of=ranks)


def left(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_ranks_train_as_one_process(both, name):
    ours, theirs = (left(folder, name) for folder in both)
    assert ours["losses"] == pytest.approx(theirs["losses"], abs=2e-4) and len(ours["losses"]) == 12
    with np.load(both[0] / f"{name}.npz") as found, np.load(both[1] / f"{name}.npz") as expected:
        for key in expected.files:
            np.testing.assert_allclose(found[key], expected[key], rtol=0, atol=ROUNDING)


def test_training_goes_on_in_the_middle_of_an_epoch(both):
    for folder in both:
        whole, resumed = left(folder, "llama"), left(folder, "resumed")
        assert len(set(whole["digests"])) == 12 and whole["digests"][4:] == resumed["digests"]


def test_rows_of_one_length_are_not_grouped_by_it(both):
    for folder in both:
        assert "group_by_length=True with packed rows" in (folder / "grouped.txt").read_text()
