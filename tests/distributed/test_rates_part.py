"""Ranks step with the same numbers, and end with the same parameters, or are told where they part."""

import pytest

from tests.harness import run_ranks

PARTED = {
    "plateau_by_rank": ["Before optimizer step ", ", lr of parameter group 0 is ", " on the others (their mean)"],
    "rate_by_rank": ["Before optimizer step 2, lr of parameter group 0 is 0.1", "0.11", "dp.all_gather_object(value)"],
    "callback": ["Before optimizer step 3, weight_decay of parameter group 1 is 0.", "0.1", "0.2"],
    "parameter_by_rank": ["classifier.weight"],
}
FINE = ("plateau_by_all", "length_before", "padded_apart")
TOLD_AT_THE_END = "parameter_by_rank_at_the_end"
ENGINES = ["mpi", pytest.param("mccl", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=ENGINES)
def told(request, tmp_path_factory):
    """What each rank was told of a way, and what the job showed."""
    folder, ways = tmp_path_factory.mktemp("rates"), (*PARTED, *FINE, TOLD_AT_THE_END)
    job = dict(ranks=2, backend=request.param, log_dir=folder / "logs")
    finished = run_ranks("rates_part.py", folder, *ways, **job)
    shown = f"{finished.stdout}\n{finished.stderr}"
    of_ranks = {way: {(folder / f"{way}.rank{rank}.txt").read_text() for rank in (0, 1)} for way in ways}
    return finished.returncode, shown, of_ranks


@pytest.mark.parametrize("way", PARTED)
def test_where_ranks_part_is_named(told, way):
    for said in told[2][way]:
        assert not [words for words in PARTED[way] if words not in said], said


def test_ranks_that_part_behind_the_last_look_are_told_at_the_end_of_the_script(told):
    status, shown, of_ranks = told
    assert of_ranks[TOLD_AT_THE_END] == {""} and status == 1
    assert "Ranks have trained one model together, and end with different parameters" in shown


def test_a_schedule_that_follows_the_mean_of_all_ranks_is_common(told):
    assert told[2]["plateau_by_all"] == {""}


def test_rows_that_ranks_pad_to_other_lengths_are_named_if_nothing_masks_them(told):
    assert told[2]["padded_apart"] == {""}
    assert told[1].count("Each rank pads its batch to its own longest row (9 numbers here, 10 on the others)") == 1


def test_a_length_that_was_asked_too_soon_is_named(told):
    assert told[2]["length_before"] == {""}
    said = "The script asked for the length of the rows before dp.prepare: 8 batches, of which each rank reads 4."
    assert told[1].count(said) == 1
