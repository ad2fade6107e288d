"""Losses and operations that ranks report are those of one process; an evaluation of unequal replicas is refused."""

import json

import pytest

from tests.distributed.jobs import jobs, left_by_all


@pytest.fixture(scope="module")
def one_process(in_turn):
    return json.loads((in_turn("reported.py") / "reported.rank0.json").read_text())


@pytest.fixture(scope="module", params=[job for job in jobs((2, "mpi")) if "3" not in str(job)], ids=str)
def of_ranks(request, in_turn):
    return left_by_all(in_turn("reported.py", *request.param), "reported.rank")


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
