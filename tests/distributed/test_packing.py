"""Packed chats on ranks: one process with N times the batch, resumed in the middle of an epoch."""

import json
import sys

import numpy as np
import pytest

from tests.harness import PROGRAMS, run, run_ranks_successfully

ROUNDING = 4e-6
JOBS = [(2, "mpi"), pytest.param((2, "mccl"), marks=pytest.mark.slow), pytest.param((3, "mpi"), marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=JOBS, ids=lambda job: f"{job[0]}-{job[1]}")
def both(request, tmp_path_factory):
    """The folders of ranks and of one process."""
    (ranks, backend), folders = request.param, [tmp_path_factory.mktemp(name) for name in ("ranks", "alone")]
    run_ranks_successfully("packed.py", folders[0], ranks, ranks=ranks, backend=backend, log_dir=folders[0] / "logs")
    finished = run([sys.executable, PROGRAMS / "packed.py", folders[1], ranks], cwd=folders[1])
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return folders


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
