"""Ranks that wait for each other in vain: the job ends, and says who was where."""

import time
from pathlib import Path

import pytest

from tests.harness import run_ranks

TIMEOUT_S = 4
NEVER_S = 250
ENDING_S = 30  # 1 on an idle machine
PROGRAM = "tests/programs/disagreements.py"


def ends(tmp_path, disagreement, backend, timeout):
    """What the launcher said, the function of the script in each rank's stack, and seconds after the ranks parted."""
    finished = run_ranks(
        "disagreements.py", tmp_path, disagreement, timeout, ranks=2, backend=backend, log_dir=tmp_path / "logs"
    )
    seconds = time.time() - float((tmp_path / "parted_at").read_text())
    assert finished.returncode == 1, finished.stderr
    assert "NOBODY NOTICED" not in finished.stdout
    return finished.stderr, seconds


def stacks(words):
    """Each rank's, by rank."""
    _, *of_ranks = words.split("Stacks of rank ")
    return {int(text[0]): text for text in of_ranks}


# What exchanges of objects are for: each is the n-th of its rank, and they must not match by chance.
PURPOSES = {
    "evaluation_in_a_callback_of_rank_0": ("digests of parameters", "losses since the last log"),
    "exchange_of_its_own_on_rank_0": ("dp.all_gather_object", "losses since the last log"),
    "exception_that_rank_1_catches": ("losses since the last log", "dp.all_gather_object"),
}
# What each rank is in when they notice; what a rank at its end was in is its last barrier.
DISAGREEMENTS = {
    "more_steps_on_rank_0": ("all_reduce of 12 elements", "all_gather_object"),
    "evaluation_on_rank_0": ("all_gather_object", "its last barrier"),
    "evaluation_in_a_callback_of_rank_0": ("all_gather_object", "all_gather_object"),
    "exchange_of_its_own_on_rank_0": ("all_gather_object", "all_gather_object"),
    "exception_that_rank_1_catches": ("all_gather_object", "all_gather_object"),
    "early_break_on_rank_1": ("all_reduce of 12 elements", "all_gather_object"),
    "early_exit_of_rank_1": ("all_gather_object", "its last barrier"),
}
# Others are found by the same comparison; a rank that has left is in tests/launch/test_processes_of_a_rank.py, too.
ALIKE = (
    *("evaluation_on_rank_0", "evaluation_in_a_callback_of_rank_0"),
    *("early_break_on_rank_1", "early_exit_of_rank_1"),
)


@pytest.mark.parametrize(
    "disagreement, backend",
    [
        *((name, "mpi") for name in DISAGREEMENTS if name not in ALIKE),
        *(pytest.param(name, "mpi", marks=pytest.mark.slow) for name in ALIKE),
        *(pytest.param(name, "mccl", marks=pytest.mark.slow) for name in DISAGREEMENTS if name not in ALIKE),
    ],
)
def test_ranks_in_different_collectives_are_told_at_once(tmp_path, disagreement, backend):
    words, seconds = ends(tmp_path, disagreement, backend, NEVER_S)
    assert seconds < ENDING_S
    for rank, collective in enumerate(DISAGREEMENTS[disagreement]):
        assert f"rank {rank} is in {collective} (number " in words or f"rank {rank} in {collective} (number " in words
        assert f"  rank {rank}: for " in words
        for purpose in PURPOSES.get(disagreement, ())[rank : rank + 1]:
            assert f", for {purpose})" in words
    assert "Look for ranks that take different numbers of steps" in words
    assert "for callbacks that set control.should_* on some ranks only" in words
    if disagreement == "exception_that_rank_1_catches":
        assert (
            "rank 1: its train() raised ArithmeticError: of one rank, and its script went on without the others:"
            in words
        )
    in_script = [rank for rank, collective in enumerate(DISAGREEMENTS[disagreement]) if "last" not in collective]
    for rank in in_script:
        assert PROGRAM in stacks(words)[rank] and f" in {disagreement}" in stacks(words)[rank]


def test_a_wait_longer_than_the_timeout_ends_the_job_and_shows_the_line_each_rank_is_at(tmp_path):
    words, seconds = ends(tmp_path, "rank_1_sleeps", "mpi", TIMEOUT_S)
    assert TIMEOUT_S < seconds < TIMEOUT_S + ENDING_S
    assert "rank 0 has waited " in words and f"longer than timeout={TIMEOUT_S} (MINDNLP_DP_TIMEOUT, seconds)" in words
    assert "rank 1: for " in words and "s in no collective; its last was all_reduce" in words
    line = next(n for n, text in enumerate(_program().splitlines(), start=1) if "time.sleep(600)" in text)
    assert f'{PROGRAM}", line {line} in <lambda>' in stacks(words)[1]
    assert "in all_gather_object" in stacks(words)[0] and " in rank_1_sleeps" in stacks(words)[0]
    assert "watchdog.py" not in stacks(words)[1], "the watchdog's own thread is of no interest"


def _program():
    return (Path(__file__).parents[1] / "programs/disagreements.py").read_text()
