"""A checkpoint that version 0.2.0 has written is gone on from."""

import zipfile
from pathlib import Path

import numpy as np

from tests.harness import run_ranks

CHECKPOINT = Path(__file__).with_name("checkpoint_of_0.2.0.zip")


def train(output, options=()):
    finished = run_ranks("earlier_version.py", output, ranks=2, backend="mpi", log_dir=output / "logs", options=options)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    with np.load(output / "end.npz") as weights:
        return [*weights.values()], (output / "logs/rank_0.log").read_text()


def test_it_ends_as_a_training_that_never_stopped(tmp_path):
    never, resumed = tmp_path / "never", tmp_path / "resumed"
    never.mkdir()
    with zipfile.ZipFile(CHECKPOINT) as archive:
        archive.extractall(resumed)
    expected, _ = train(never)
    found, log = train(resumed, options=("--resume",))
    assert f"--resume: training continues from {resumed / 'checkpoint-2'}\n" in log
    assert [path.name for path in sorted(resumed.glob("checkpoint-*"))] == [
        "checkpoint-2",
        "checkpoint-4",
        "checkpoint-6",
    ]
    for value, other in zip(expected, found, strict=True):  # another processor wrote the checkpoint
        np.testing.assert_allclose(other, value, atol=1e-6)
