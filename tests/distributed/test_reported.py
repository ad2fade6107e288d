"""Losses and operations that ranks report are those of one process; an evaluation of unequal replicas is refused."""

import json

import pytest

from tests.distributed.jobs import jobs, left_by_all

NUM_RANKS = 2


@pytest.fixture(scope="module")
def one_process(output_of):
    return json.loads((output_of("reported.py", NUM_RANKS) / "reported.rank0.json").read_text())


@pytest.fixture(scope="module", params=[job for job in jobs((2, "mpi")) if "3" not in str(job)], ids=str)
def of_ranks(request, output_of):
    ranks, backend = request.param
    return left_by_all(output_of("reported.py", NUM_RANKS, ranks=ranks, backend=backend), "reported.rank")


@pytest.mark.parametrize("what", ["sums", "sums_accumulated"])
def test_a_loss_that_is_no_number_on_one_rank_is_none_for_all(one_process, of_ranks, what):
    assert of_ranks[what] == pytest.approx(one_process[what], rel=1e-5)


def test_the_loss_of_epochs_that_a_callback_cuts_short(one_process, of_ranks):
    assert of_ranks["cut_short"] == pytest.approx(one_process["cut_short"], rel=1e-5)


def test_operations_are_those_of_all_ranks(one_process, of_ranks):
    assert of_ranks["operations"] == one_process["operations"] > 0


def test_evaluating_other_weights_on_one_rank_is_refused(of_ranks):
    said = of_ranks["evaluation_of_other_weights"]
    assert said.startswith("Replicas differ after step 2: classifier.bias on rank(s) 1 is not what rank 0 holds")
