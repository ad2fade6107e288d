"""A prepared loop goes on from its saved state to the last bit, scores each row once, and refuses by name."""

import json

import numpy as np
import pytest

from tests.distributed.jobs import left_by_all
from tests.harness import run_ranks

NUM_RANKS = 2


@pytest.fixture(scope="module", params=["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def folder_of_ranks(request, output_of):
    alone = output_of("own_loop_state.py", NUM_RANKS)
    return output_of("own_loop_state.py", NUM_RANKS, "all", alone, ranks=NUM_RANKS, backend=request.param)


@pytest.fixture(scope="module")
def one_process(output_of):
    return json.loads((output_of("own_loop_state.py", NUM_RANKS) / "state.rank0.json").read_text())


@pytest.fixture(scope="module")
def of_ranks(folder_of_ranks):
    return left_by_all(folder_of_ranks, "state.rank")


@pytest.mark.parametrize("how", ["goes_on", "goes_on_in_fp16", "goes_on_behind_the_last_batch_of_an_epoch"])
def test_it_goes_on_to_the_last_bit(one_process, of_ranks, how):
    assert one_process[how] and of_ranks[how]


def test_other_ranks_go_on_in_mid_epoch_at_the_same_global_batch(one_process, of_ranks, folder_of_ranks, output_of):
    """More with what one process has saved, and one with what two have."""
    fewer = output_of("own_loop_state.py", NUM_RANKS, "gone_on", folder_of_ranks)
    fewer = json.loads((fewer / "state.rank0.json").read_text())
    for found in (one_process["elsewhere"], of_ranks["gone_on"], fewer["gone_on"]):
        np.testing.assert_allclose(found, of_ranks["elsewhere"], rtol=0, atol=2e-6)


def test_a_signal_to_one_rank_ends_the_job_after_a_step_and_the_same_command_goes_on(tmp_path, of_ranks, request):
    job = dict(ranks=NUM_RANKS, backend=request.node.callspec.params["folder_of_ranks"], log_dir=tmp_path / "logs")
    ended = run_ranks("own_loop_state.py", tmp_path, NUM_RANKS, "stopped", **job)
    assert ended.returncode == 143, ended.stdout + ended.stderr
    folder = tmp_path / "states" / "stopped"
    assert f"stopped by SIGTERM after step 6, which {folder} holds" in ended.stderr
    assert json.loads((tmp_path / "logs" / "result.json").read_text())["status"] == "stopped"
    finished = run_ranks("own_loop_state.py", tmp_path, NUM_RANKS, "stopped", **job)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    ends = [json.loads((tmp_path / f"stopped.rank{rank}.json").read_text()) for rank in range(NUM_RANKS)]
    assert ends == [of_ranks["goes_on"]] * NUM_RANKS


def test_each_row_is_scored_once_in_order_whether_gathered_in_the_loop_or_behind_it(one_process, of_ranks):
    within, behind, few_within, few_behind = one_process["evaluation"]
    assert len(within) == 101 and len(few_within) == 3
    assert within == behind and few_within == few_behind
    assert of_ranks["evaluation"] == one_process["evaluation"]


def test_two_models_train_side_by_side_and_are_not_saved_by_half(one_process, of_ranks):
    np.testing.assert_allclose(of_ranks["pair"]["values"], one_process["pair"]["values"], rtol=0, atol=2e-6)
    assert of_ranks["pair"]["said"].startswith(
        "dp.save_state saves the model and the optimizer that dp.prepare got last"
    )


def test_gradients_that_no_optimizer_steps_are_averaged_for_clipping(one_process, of_ranks):
    expected = one_process["head_alone_is_stepped"]
    np.testing.assert_allclose(of_ranks["head_alone_is_stepped"], expected, rtol=0, atol=2e-6)


def test_what_would_part_the_ranks_is_refused_by_name(of_ranks):
    other_gradients, pending, lonely, unknown, precision, two, shared, beside = of_ranks["refusals"]
    assert "gradients that were not averaged" in other_gradients and "value_and_grad averages them" in other_gradients
    assert "dp.save_state between gradients and their optimizer step" in pending
    assert "dp.prepare got 0 objects that are a MindNLP optimizer" in lonely
    assert "dp.prepare got a list" in unknown
    assert "mixed_precision='half' is not known" in precision
    assert "dp.prepare got 2 objects that are a MindNLP optimizer" in two and "parameter group" in two
    assert beside.startswith("SGD steps beside AdamW, SGD on gradients that were not averaged over the ranks.")
    assert "prepare it, too, with its model" in beside
