"""``fp16=True`` on ranks: as one process, each other's bits, no step from an overflow, and resumed to the last bit."""

import numpy as np
import pytest

from tests.harness import decorated_functions

NUM_RANKS = 2
CASES = [name for name in decorated_functions("mixed_precision.py") if name != "overflowing"]
# Each rank rounds its gradients to float16, 2**-11 of their size, where one process rounds their sum.
ROUNDING = 2.0**-9


@pytest.fixture(scope="module")
def one_process(output_of):
    return output_of("mixed_precision.py", NUM_RANKS)


@pytest.fixture(scope="module", params=["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def of_ranks(request, output_of):
    return output_of("mixed_precision.py", NUM_RANKS, ranks=NUM_RANKS, backend=request.param)


def load(folder, case, rank=0):
    return np.load(folder / f"{case}.rank{rank}.npz")


def movement(parameters):
    """How far training has taken the parameters, the root of the mean square."""
    return np.sqrt(np.mean((parameters[-1] - parameters[0]) ** 2))


@pytest.mark.parametrize("case", [*CASES, "overflowing"])
def test_ranks_hold_the_same_bits(of_ranks, case):
    first, other = (load(of_ranks, case, rank) for rank in range(NUM_RANKS))
    for what in first.files:
        np.testing.assert_array_equal(other[what], first[what])


@pytest.mark.parametrize("case", ["plain", "accumulated", "averaged_over_samples", "growing"])
def test_ranks_end_as_one_process_but_for_rounding(one_process, of_ranks, case):
    alone, together = load(one_process, case), load(of_ranks, case)
    difference = np.sqrt(np.mean((together["parameters"][-1] - alone["parameters"][-1]) ** 2))
    assert difference <= ROUNDING * movement(alone["parameters"])
    np.testing.assert_array_equal(together["logs"], alone["logs"])


def test_half_precision_is_used_and_ends_near_float32(one_process):
    half, full = (load(one_process, case)["parameters"] for case in ("plain", "in_float32"))
    difference = np.sqrt(np.mean((half[-1] - full[-1]) ** 2))
    assert 0 < difference <= 0.01 * movement(full)


def test_predictions_are_float32(of_ranks):
    assert load(of_ranks, "plain")["scores"].dtype == np.float32


def test_an_overflow_on_one_rank_skips_the_step_on_all(one_process, of_ranks):
    for folder in (one_process, of_ranks):
        result = load(folder, "overflowing")
        parameters, rates = result["parameters"], result["rates"]
        is_step = [not np.array_equal(before, after) for before, after in zip(parameters, parameters[1:])]
        assert is_step == [True, False, True, True, False, True]
        assert rates[1] == rates[0] and rates[4] == rates[3] and len(set(rates)) == 4
        assert result["logs"].tolist() == [[2**16, 0], [2**15, 1], [2**15, 1], [2**15, 1], [2**14, 2], [2**14, 2]]
        assert np.isfinite(parameters).all()


def test_the_scale_grows_after_as_many_good_steps(of_ranks):
    assert load(of_ranks, "growing")["logs"][:, 0].tolist() == [1024, 2048, 2048, 4096, 4096, 8192]


def test_resumed_it_ends_as_if_never_stopped(one_process, of_ranks):
    for folder in (one_process, of_ranks):
        whole, rest = load(folder, "never_stopped"), load(folder, "resumed")
        assert whole["logs"][-1, 1] > 10  # skipped: the scale was far too large
        np.testing.assert_array_equal(rest["parameters"][-1], whole["parameters"][-1])
        np.testing.assert_array_equal(rest["logs"], whole["logs"][25:])
