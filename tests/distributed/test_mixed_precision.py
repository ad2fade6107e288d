"""``fp16=True`` on ranks: as one process, each other's bits, no step from an overflow, and resumed to the last bit."""

import json
from itertools import pairwise

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.distributed.jobs import jobs
from tests.harness import decorated_functions

PROGRAM = "mixed_precision.py"
FAMILIES = ["albert/masked_lm", "convbert/masked_lm", "gpt2/causal_lm", "llama/causal_lm", "t5/seq2seq_lm"]
AS_ONE_PROCESS = [
    *("plain", "accumulated", "growing", "evaluated_in_float16_between"),
    *("adapters", "frozen_embeddings", "tied_weights", "grouped_by_length", "own_loss", "loaded_in_float16"),
]
# float16 keeps 11 bits: one rounding moves a number by at most this part of itself. Ranks and one process are expected
# to differ by so many of them, of the way that the steps went: docs/guide/half-precision.md derives it.
ROUNDING = 2.0**-11
EXPECTED = {2: 0.53, 3: 2.0}


@pytest.fixture(scope="module", params=jobs((2, "mpi")), ids=str)
def runs(request, output_of, in_turn):
    """Every case: (number of ranks, results of one process with their batches, results of the ranks)."""
    ranks, backend = request.param
    return ranks, output_of(PROGRAM, ranks), in_turn(PROGRAM, ranks, backend)


def load(folder, case, rank=0):
    return np.load(folder / f"{case}.rank{rank}.npz")


def length_of_steps(parameters):
    """How far each step has moved the parameters, added up."""
    return np.linalg.norm(np.diff(parameters, axis=0), axis=1).sum()


@pytest.mark.parametrize("case", decorated_functions(PROGRAM))
def test_ranks_hold_the_same_bits(runs, case):
    num_ranks, _, of_ranks = runs
    first, *others = (load(of_ranks, case, rank) for rank in range(num_ranks))
    for other in others:
        for what in first.files:
            np.testing.assert_array_equal(other[what], first[what])


@pytest.mark.parametrize("case", AS_ONE_PROCESS)
def test_ranks_end_as_one_process_but_for_rounding(runs, case):
    num_ranks, one_process, of_ranks = runs
    alone, together = load(one_process, case), load(of_ranks, case)
    difference = np.linalg.norm(together["parameters"][-1] - alone["parameters"][-1])
    assert difference <= 2 * EXPECTED[num_ranks] * ROUNDING * length_of_steps(alone["parameters"])
    np.testing.assert_array_equal(together["logs"], alone["logs"])


def test_half_precision_is_used_and_ends_near_float32(runs):
    _, one_process, _ = runs
    half, full = (load(one_process, case)["parameters"] for case in ("plain", "in_float32"))
    assert 0 < np.linalg.norm(half[-1] - full[-1]) <= 0.01 * np.linalg.norm(full[-1] - full[0])


def test_evaluation_computes_as_training_does_and_ranks_as_one_process(runs):
    _, one_process, of_ranks = runs
    alone, together = load(one_process, "plain"), load(of_ranks, "plain")
    assert together["scores"].dtype == together["scores_before"].dtype == np.float32
    np.testing.assert_array_equal(together["scores_before"], alone["scores_before"])
    in_float32 = load(one_process, "in_float32")["scores_before"]
    assert 0 < np.abs(alone["scores_before"] - in_float32).max() < 0.01


def test_a_weight_is_cast_once_in_a_step_however_often_it_is_used(runs):
    for folder in runs[1:]:
        casts = load(folder, "tied_weights")["casts"]
        assert len(casts) > 10 and set(casts) == {6}


def test_an_infinity_in_one_rank_s_gradients_skips_the_step_on_all(runs):
    result = load(runs[2], "struck_at_random")
    stood_still = [np.array_equal(before, after) for before, after in pairwise(result["parameters"])]
    num_strikes = {2: 30, 3: 100}[runs[0]]
    assert stood_still == result["strikes"].tolist() and sum(stood_still) == num_strikes
    assert np.isfinite(result["parameters"]).all()
    assert result["logs"][-1].tolist() == [2**16, num_strikes]


def test_a_loss_that_overflows_on_one_rank_skips_the_step_on_all(runs):
    for folder in runs[1:]:
        result = load(folder, "overflowing")
        parameters, rates = result["parameters"], result["rates"]
        is_step = [not np.array_equal(before, after) for before, after in pairwise(parameters)]
        assert is_step == [True, False, True, True, False, True]
        assert rates[1] == rates[0] and rates[4] == rates[3] and len(set(rates)) == 4
        assert result["logs"].tolist() == [[2**16, 0], [2**15, 1], [2**15, 1], [2**15, 1], [2**14, 2], [2**14, 2]]
        assert np.isfinite(parameters).all()


def test_a_model_loaded_in_float16_has_float32_masters_and_is_saved_as_it_was_loaded(runs):
    for folder in runs[1:]:
        masters = load_file(folder / "of_float16" / "checkpoint-6" / "model.safetensors")
        saved = load_file(folder / "float16.of_rank0" / "model.safetensors")
        assert masters.keys() == saved.keys()
        for name, value in saved.items():
            assert (masters[name].dtype, value.dtype) == (np.float32, np.float16)
            np.testing.assert_array_equal(masters[name].astype(np.float16), value)


def test_the_scale_grows_after_as_many_good_steps(runs):
    assert load(runs[2], "growing")["logs"][:, 0].tolist() == [1024, 2048, 2048, 4096, 4096, 8192]


def test_resumed_it_ends_as_if_never_stopped(runs):
    for folder in runs[1:]:
        whole, rest = load(folder, "never_stopped"), load(folder, "resumed")
        assert whole["logs"][-1, 1] > 10  # skipped: the scale was far too large
        np.testing.assert_array_equal(rest["parameters"][-1], whole["parameters"][-1])
        np.testing.assert_array_equal(rest["logs"], whole["logs"][25:])


@pytest.fixture(scope="module")
def losses_of_families(output_of):
    lines = (output_of("half_families.py", 24, *FAMILIES, timeout=900) / "losses.jsonl").read_text().splitlines()
    return {line["case"]: line for line in map(json.loads, lines)}


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_s_loss_falls_as_in_float32(losses_of_families, family):
    """``benchmarks/half_precision.py`` trains more of them, for 200 steps."""
    losses = losses_of_families[family]
    assert losses["float32"] < 0.99 * losses["first"] and losses["skipped"] <= 1
    assert losses["fp16"] == pytest.approx(losses["float32"], rel=0.02)
