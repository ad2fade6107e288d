"""What rank 0 alone reads is dealt out: N ranks train and score what one process with N times the batch does."""

import json
from itertools import chain

import numpy as np
import pytest

from tests.distributed.jobs import jobs
from tests.harness import run_ranks

ROUNDING = 2e-6
EQUAL = ("once", "runs_out", "own_order", "shuffled", "accumulated", "endless", "whole", "resumed", "own_loop")


@pytest.fixture(scope="module", params=jobs((2, "mpi")), ids=str)
def job(request, tmp_path_factory):
    """The folder of ranks, whose last source raises, their number, and what their launcher said."""
    (ranks, backend), folder = request.param, tmp_path_factory.mktemp("ranks")
    finished = run_ranks("dispatched.py", folder, ranks, ranks=ranks, backend=backend, log_dir=folder / "logs")
    assert finished.returncode == 1
    return folder, ranks, finished.stdout + finished.stderr


@pytest.fixture
def both(job, output_of):
    """The folders of ranks and of one process with their batches, and the number of ranks."""
    folder, ranks, _ = job
    return folder, output_of("dispatched.py", ranks), ranks


def left(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.parametrize("name", EQUAL)
def test_ranks_train_as_one_process(both, name):
    folder, alone, ranks = both
    ours, theirs = left(folder, name), left(alone, name)
    assert ours["steps"] == theirs["steps"] and ours["steps"]
    assert ours["given"][0] and not any(ours["given"][1:])  # rank 0 alone reads
    if name != "once":  # where the length is known, steps are shares of an epoch
        assert [entry["epoch"] for entry in ours.get("log", [])] == [entry["epoch"] for entry in theirs.get("log", [])]
    for one, other in zip(ours.get("log", []), theirs.get("log", [])):
        assert one["loss"] == pytest.approx(other["loss"], abs=2e-4)
    with np.load(folder / f"{name}.npz") as found, np.load(alone / f"{name}.npz") as expected:
        for key in expected.files:
            np.testing.assert_allclose(found[key], expected[key], rtol=0, atol=ROUNDING)


def test_each_row_is_read_once_an_epoch(both):
    folder, _, ranks = both
    for name in ("own_order", "shuffled"):
        steps = left(folder, name)["steps"]
        first, second = (list(chain(*half)) for half in (steps[: len(steps) // 2], steps[len(steps) // 2 :]))
        assert sorted(first) == sorted(second) == list(range(12 * ranks)) and first != second
    assert list(chain(*left(folder, "once")["steps"])) == list(range(6 * 2 * ranks))


def test_a_source_that_ends_early_ends_training(both):
    folder, _, _ = both
    assert len(left(folder, "runs_out")["steps"]) == 3


def test_what_is_left_in_the_last_turn_is_read_by_all_or_none(both):
    folder, _, ranks = both
    for name, steps_of_epoch in (("uneven", 3), ("dropped", 2)):
        steps = left(folder, name)["steps"]
        assert len(steps) == 2 * steps_of_epoch
        for epoch in (steps[:steps_of_epoch], steps[steps_of_epoch:]):
            whole = list(chain(*epoch[:2]))
            assert len(set(whole)) == len(whole) == 4 * ranks
            for last in epoch[2:]:
                assert last == last[:2] * ranks and not set(last) & set(whole)


def test_training_goes_on_in_the_middle_of_an_epoch(both):
    folder, _, _ = both
    whole, resumed = left(folder, "whole"), left(folder, "resumed")
    assert whole["steps"] == whole["steps"][:7] + resumed["steps"] and len(resumed["steps"]) == 8
    assert whole["digests"][7:] == resumed["digests"]


def test_each_row_is_scored_once(both):
    folder, alone, ranks = both
    ours, theirs = left(folder, "scored"), left(alone, "scored")
    assert ours["labels"] == theirs["labels"] and len(ours["labels"]) == 4 * (2 * ranks + 1) - 1
    assert ours["predictions"] == theirs["predictions"]
    assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-6)
    assert ours["is_empty"] and theirs["is_empty"]  # the second time it has nothing more


def test_a_source_that_raises_ends_all_ranks_with_its_traceback(job):
    *_, said = job
    assert "ValueError: row 7 is torn" in said and "rank 0" in said and "dispatched.py" in said
