"""Ranks step with the same numbers, and end with the same parameters, or are told where they part."""

import pytest

from tests.harness import run_ranks

PARTED = {
    "plateau_by_rank": ["Before optimizer step ", ", lr of parameter group 0 is ", " on the others (their mean)"],
    "rate_by_rank": ["Before optimizer step 2, lr of parameter group 0 is 0.1", "0.11", "dp.all_gather_object(value)"],
    "callback": ["Before optimizer step 3, weight_decay of parameter group 1 is 0.", "0.1", "0.2"],
    "parameter_by_rank": ["classifier.weight"],
    "parameter_by_rank_at_the_end": ["At the end of the script, ranks hold different parameters"],
}
ENGINES = ["mpi", pytest.param("mccl", marks=pytest.mark.slow)]


def run(tmp_path, way, backend):
    finished = run_ranks("rates_part.py", tmp_path, way, ranks=2, backend=backend, log_dir=tmp_path / "logs")
    return finished.returncode, f"{finished.stdout}\n{finished.stderr}"


@pytest.mark.parametrize("backend", ENGINES)
@pytest.mark.parametrize("way", PARTED)
def test_where_ranks_part_is_named(tmp_path, way, backend):
    status, told = run(tmp_path, way, backend)
    assert status == 1, told
    for words in PARTED[way]:
        assert words in told


def test_a_schedule_that_follows_the_mean_of_all_ranks_is_common(tmp_path):
    status, told = run(tmp_path, "plateau_by_all", "mpi")
    assert status == 0 and "plateau_by_all is done" in told


def test_a_length_that_was_asked_too_soon_is_named(tmp_path):
    status, told = run(tmp_path, "length_before", "mpi")
    assert status == 0
    said = "The script asked for the length of the rows before dp.prepare: 8 batches, of which each rank reads 4."
    assert told.count(said) == 1
