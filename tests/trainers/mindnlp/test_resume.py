"""Where training goes on: the steps after a checkpoint are made of the rows they would have been made of."""

import re

import pytest

from tests.harness import run_ranks_successfully


@pytest.mark.slow
def test_random_settings_and_checkpoints(tmp_path):
    """Rows, batches, accumulation, epochs, shuffling, grouping and the step of the checkpoint are drawn at random."""
    arguments = ("resume_positions.py", tmp_path / "cases", 40)
    finished = run_ranks_successfully(*arguments, ranks=1, backend="auto", log_dir=tmp_path / "logs")
    within, over = map(int, re.search(r"resumed (\d+) times within training, (\d+) times", finished.stdout).groups())
    assert within > 15 and over > 5
