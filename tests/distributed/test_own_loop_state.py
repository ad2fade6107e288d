"""A prepared loop goes on from its saved state to the last bit, scores each row once, and refuses by name."""

import json

import pytest

NUM_RANKS = 2


@pytest.fixture(scope="module")
def one_process(output_of):
    return json.loads((output_of("own_loop_state.py", NUM_RANKS) / "state.rank0.json").read_text())


@pytest.fixture(scope="module", params=["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def of_ranks(request, output_of):
    output = output_of("own_loop_state.py", NUM_RANKS, ranks=NUM_RANKS, backend=request.param)
    first, second = (json.loads((output / f"state.rank{rank}.json").read_text()) for rank in range(NUM_RANKS))
    assert first == second
    return first


@pytest.mark.parametrize("how", ["goes_on", "goes_on_in_fp16"])
def test_it_goes_on_in_mid_epoch_to_the_last_bit(one_process, of_ranks, how):
    assert one_process[how] and of_ranks[how]


def test_each_row_is_scored_once_in_order_whether_gathered_in_the_loop_or_behind_it(one_process, of_ranks):
    within, behind, few_within, few_behind = one_process["evaluation"]
    assert len(within) == 101 and len(few_within) == 3
    assert within == behind and few_within == few_behind
    assert of_ranks["evaluation"] == one_process["evaluation"]


def test_what_would_part_the_ranks_is_refused_by_name(of_ranks):
    other_gradients, pending, lonely, unknown, precision = of_ranks["refusals"]
    assert "gradients that were not averaged" in other_gradients and "value_and_grad computes them" in other_gradients
    assert "dp.save_state between gradients and their optimizer step" in pending
    assert "dp.prepare got 0 objects that are a MindNLP optimizer" in lonely
    assert "dp.prepare got a list" in unknown
    assert "mixed_precision='half' is not known" in precision
