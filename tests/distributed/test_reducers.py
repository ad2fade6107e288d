"""The bucketed reducer gives the naive reducer's gradients, with one all-reduce a bucket."""

import numpy as np
import pytest

from tests.distributed.jobs import jobs

CASES = [
    "one_bucket",
    "many_buckets",
    "bucket_per_parameter",
    "accumulated",
    "without_prepare",
    "mixed_dtypes",
    "mixed_dtypes_accumulated_per_parameter",
]


@pytest.fixture(scope="module", params=jobs((2, "mpi"), (2, "mccl")), ids=str)
def outcomes(request, engine_outcomes):
    return request.param, [outcome["reducers"] for outcome in engine_outcomes(*request.param)]


@pytest.mark.parametrize("case", CASES)
def test_bucketed_equals_naive(outcomes, case):
    (ranks, backend), results = outcomes
    results = [result[case] for result in results]
    assert all(result["digests"] == results[0]["digests"] for result in results)
    # A sum of two does not depend on its order. MCCL sums three in an order that depends on the place in the message.
    allowed = 3e-7 if (ranks, backend) == (3, "mccl") else 0
    assert max(results[0]["relative_differences"]) <= allowed


@pytest.mark.parametrize("case", CASES)
def test_each_gradient_travels_once(outcomes, case):
    _, results = outcomes
    for result in results:
        counted = result[case]
        assert counted["num_all_reduces"] == 3 * counted["num_buckets"]
        assert counted["num_bytes"] == 3 * counted["gradient_bytes"]


@pytest.mark.parametrize(("case", "bits"), [("as_float16", 11), ("as_bfloat16", 8), ("mixed_dtypes_as_float16", 11)])
def test_in_half_precision_half_the_bytes_travel(outcomes, case, bits):
    (ranks, _), results = outcomes
    results = [result[case] for result in results]
    assert all(result["digests"] == results[0]["digests"] for result in results)
    # Each share is rounded once, and each sum of two. A mean kept in half precision once more, as is what it is held
    # against: in bfloat16, the coarser, by at most 2**-8 each.
    allowed = ranks * 2.0**-bits + (2 * 2.0**-8 if case.startswith("mixed") else 0)
    assert 0 < max(results[0]["relative_differences"]) <= allowed
    assert all(result["num_bytes"] == 3 * result["gradient_bytes"] / 2 for result in results)


def test_clipping_by_buckets_equals_clipping_by_parameters(outcomes):
    _, results = outcomes
    for result in results:
        assert result["clipping"] == results[0]["clipping"]
    for case, clipped in results[0]["clipping"].items():
        # Half-precision gradients are summed before they are rounded, and the norm is that of the sums.
        allowed = 1e-6 if case.startswith("Bert") else 2.0**-8
        mine, norm, stock_norm = clipped["norms"]
        assert mine == pytest.approx(norm, rel=allowed) and mine == pytest.approx(stock_norm, rel=allowed)
        assert clipped["relative_difference"] <= allowed
        assert clipped["has_just_averaged"] == [True, False, False]


def test_backward_leaves_gradients_in_buckets(outcomes):
    """On the host; then there is no second copy of them. On a device, buckets are packed from them."""
    (_, backend), results = outcomes
    for result in results:
        assert result["memory"] == {"are_in_buckets": backend == "mpi", "are_kept": True}


def test_means_near_the_largest_float16_do_not_overflow(outcomes):
    (ranks, _), results = outcomes
    mean = np.mean([np.float16(60000 - 1000 * rank) for rank in range(ranks)], dtype=np.float64)
    for result in results:
        assert result["near_overflow"] == [float(np.float16(mean))] * 3
