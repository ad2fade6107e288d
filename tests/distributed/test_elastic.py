"""Training goes on in the middle of an epoch with another split of the same global batch, as if never stopped."""

import json
import sys
from collections import Counter

import numpy as np
import pytest

from tests.harness import PROGRAMS, run, run_ranks_successfully

ROUNDING = 2e-6  # of parameters, after up to 7 further steps
EPOCHS = 2


@pytest.fixture(scope="module")
def trained(in_turn):
    """Every case without a stop on 2 ranks, and gone on with on 2 ranks."""
    return in_turn("elastic.py", 2, "mpi")


@pytest.fixture(scope="module")
def gone_on(trained):
    """The folder of results, after so many ranks have gone on with every case."""

    def results(num_ranks):
        if num_ranks == 1:
            finished = run([sys.executable, PROGRAMS / "elastic.py", trained], cwd=trained)
            assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
        elif num_ranks == 3:
            run_ranks_successfully("elastic.py", trained, ranks=3, backend="mpi", log_dir=trained / "logs3")
        return trained

    return results


@pytest.mark.parametrize("num_ranks, num_ends", [(1, 5), (2, 1), pytest.param(3, 2, marks=pytest.mark.slow)])
def test_it_ends_as_if_never_stopped(gone_on, num_ranks, num_ends):
    folder = gone_on(num_ranks)
    ends = sorted(folder.glob(f"*.{num_ranks}-*.from_checkpoint-*.json"))
    assert len(ends) == num_ends
    for path in ends:
        name, step = path.stem, int(path.stem.rpartition("-")[2])
        case = name.partition(".")[0]
        whole, end = (json.loads(each.read_text()) for each in (folder / f"{case}.whole.json", path))
        assert_equal_parameters(folder / f"{name}.npz", folder / f"{case}.whole.npz", name)
        assert_equal_logs(end["log"], whole["log"], name)
        assert_rows_are_read_once_an_epoch(whole["rows"], end["rows"], step, name)


def assert_equal_parameters(found, expected, name):
    with np.load(found) as ours, np.load(expected) as theirs:
        for key in theirs.files:
            np.testing.assert_allclose(ours[key], theirs[key], rtol=0, atol=ROUNDING, err_msg=name)


def assert_equal_logs(found, expected, name):
    assert [entry["step"] for entry in found] == [entry["step"] for entry in expected], name
    for ours, theirs in zip(found, expected):
        for what in ("loss", "learning_rate", "epoch"):
            assert ours[what] == pytest.approx(theirs[what], abs=1e-5), (name, what)


def assert_rows_are_read_once_an_epoch(before, after, step, name):
    read = [(at, tuple(ids)) for at, ids in before if at < step] + [(at, tuple(ids)) for at, ids in after]
    steps_per_epoch = (max(at for at, _ in before) + 1) // EPOCHS
    for epoch in range(EPOCHS):
        steps = range(epoch * steps_per_epoch, (epoch + 1) * steps_per_epoch)
        rows = Counter(ids for at, ids in read if at in steps)
        assert rows == Counter(tuple(ids) for at, ids in before if at in steps), (name, epoch)
        assert rows.total() == len(before) // EPOCHS, (name, epoch)
