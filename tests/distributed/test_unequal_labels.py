"""Rows with 2 to 12 labels: with no setting, N ranks train as one process with N times the batch."""

import numpy as np
import pytest

from tests.distributed.jobs import jobs
from tests.programs.unequal_labels import CASES, LOOPS, NUM_STEPS, OF_SEEDS, VOCABULARY

PROGRAM = "unequal_labels.py"

# Half precision rounds otherwise where a rank's rows are fewer: 7 steps of 0.1, and numbers of 11 bits.
IN_HALF = {"fp16": 7 * 0.1 * 2.0**-14}


@pytest.mark.parametrize("name", [*CASES, *LOOPS])
@pytest.mark.parametrize("job", jobs((2, "mpi")), ids=str)
def test_ranks_equal_one_process_after_each_step(output_of, in_turn, job, name):
    ranks, backend = job
    expected = np.load(output_of(PROGRAM, ranks) / f"{name}.rank0.npz")
    output = in_turn(PROGRAM, ranks, backend)
    results = [np.load(output / f"{name}.rank{rank}.npz") for rank in range(ranks)]

    for result in results[1:]:
        np.testing.assert_array_equal(result["parameters"], results[0]["parameters"])
    bound = IN_HALF.get(name, 2e-6)
    assert np.ptp(expected["parameters"], axis=0).max() > 100 * bound, "parameters stood still"
    np.testing.assert_allclose(results[0]["parameters"], expected["parameters"], rtol=0, atol=bound)
    np.testing.assert_allclose(results[0]["losses"], expected["losses"], rtol=0, atol=2 * bound)
    np.testing.assert_allclose(results[0]["train_loss"], expected["train_loss"], rtol=0, atol=2 * bound)


def test_what_must_be_common_is_drawn_from_the_seed_of_rank_0(in_turn):
    output = in_turn(PROGRAM, 2, "mpi")
    alike, by_rank = (np.load(output / f"{name}.rank1.npz")["parameters"] for name in ("seeds_alike", "seeds_by_rank"))
    np.testing.assert_array_equal(by_rank, alike)
    said = "TrainingArguments.seed differs between ranks (5, 6): the order of rows, and all else that must be the same"
    assert (output.parent / "logs" / "rank_0.log").read_text().count(said) == 1


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("rank", (0, 1))
def test_a_loop_is_given_the_mean_of_a_batch_also_where_another_rank_has_it_too(in_turn, rank, name):
    result = np.load(in_turn(PROGRAM, 2, "mpi") / f"{name}.rank{rank}.npz")
    assert result["returned"].min() >= 0 and result["returned"].max() < 2 * np.log(VOCABULARY)


@pytest.mark.parametrize("name", LOOPS)
def test_counts_travel_with_the_question_before_each_step_of_a_loop(in_turn, name):
    result = np.load(in_turn(PROGRAM, 2, "mpi") / f"{name}.rank0.npz")
    case = {**CASES, **OF_SEEDS}[name.partition(".")[0]]
    accumulation = case.arguments.get("gradient_accumulation_steps", 1)
    begun_within_a_step = [
        place for place in range(0, NUM_STEPS * accumulation, case.num_batches) if place % accumulation
    ]
    assert result["num_votes"] == NUM_STEPS + len(begun_within_a_step), "epochs that begin within a step count apart"
