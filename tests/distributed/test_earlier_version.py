"""A checkpoint that version 0.2.0 has written is gone on from."""

import zipfile
from pathlib import Path

import numpy as np

from tests.harness import run_ranks_successfully

CHECKPOINT = Path(__file__).with_name("checkpoint_of_0.2.0.zip")


def end_of(folder):
    with np.load(folder / "end.npz") as weights:
        return [*weights.values()]


def test_it_ends_as_a_training_that_never_stopped(tmp_path):
    never, resumed = tmp_path / "never", tmp_path / "resumed"
    never.mkdir()
    with zipfile.ZipFile(CHECKPOINT) as archive:
        archive.extractall(resumed)
    job = dict(ranks=2, backend="mpi", log_dir=tmp_path / "logs", options=("--resume",))
    run_ranks_successfully("earlier_version.py", never, resumed, **job)
    log = (tmp_path / "logs/rank_0.log").read_text()
    assert log.count("--resume: training continues from the start\n") == 1
    assert f"--resume: training continues from {resumed / 'checkpoint-2'}\n" in log
    assert sorted(path.name for path in resumed.glob("checkpoint-*")) == [f"checkpoint-{step}" for step in (2, 4, 6)]
    for value, other in zip(end_of(never), end_of(resumed), strict=True):  # another processor wrote the checkpoint
        np.testing.assert_allclose(other, value, atol=1e-6)
