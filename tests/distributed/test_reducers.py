"""The bucketed reducer gives the naive reducer's gradients, with one all-reduce a bucket."""

import numpy as np
import pytest

CASES = [
    "one_bucket",
    "many_buckets",
    "bucket_per_parameter",
    "accumulated",
    "without_prepare",
    "mixed_dtypes",
    "mixed_dtypes_accumulated_per_parameter",
]


JOBS = [(2, "mpi"), (3, "mpi"), (2, "mccl"), pytest.param((3, "mccl"), marks=pytest.mark.long)]


@pytest.fixture(scope="module", params=JOBS, ids=str)
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
        # The first step has buckets of its own: their order is a guess until it is known.
        assert abs(counted["num_all_reduces"] - 3 * counted["num_buckets"]) <= 2
        assert counted["num_bytes"] == 3 * counted["gradient_bytes"]


@pytest.mark.parametrize("accumulate", [1, 4])
def test_means_near_the_largest_float16_do_not_overflow(outcomes, accumulate):
    (ranks, _), results = outcomes
    mean = np.mean([np.float16(60000 - 1000 * rank) for rank in range(ranks)], dtype=np.float64)
    for result in results:
        assert result["near_overflow"][str(accumulate)] == [float(np.float16(mean))] * 3
