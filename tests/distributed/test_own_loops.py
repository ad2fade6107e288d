"""Loops as users write them, prepared by ``dp.prepare``, end as the Trainer in one process with the whole batch."""

import numpy as np
import pytest

from tests.distributed.jobs import jobs
from tests.distributed.test_oracle import assert_equal_within_rounding
from tests.programs.scenarios import SCENARIOS

WAYS = (
    *("bert_adamw", "bert_sgd", "accumulation_with_tail", "accumulation_with_tail.everywhere"),
    *("epoch_shorter_than_accumulation", "frozen_embeddings", "unused_parameter", "used_by_one_rank", "tied_weights"),
    *("lora", "bert_adamw.returned", "bert_adamw.zero1"),
)


@pytest.fixture(scope="module", params=jobs((2, "mpi"), (2, "mccl")), ids=str)
def runs(request, output_of):
    """(number of ranks, results of the Trainer in one process, results of the ranks)."""
    ranks, backend = request.param
    reference = output_of("train_scenarios.py", ranks, *SCENARIOS, timeout=900)
    return ranks, reference, output_of("own_loops.py", ranks, *WAYS, ranks=ranks, backend=backend, timeout=600)


@pytest.mark.parametrize("way", WAYS)
def test_a_prepared_loop_ends_as_the_trainer(runs, way):
    ranks, reference, output = runs
    name = way.partition(".")[0]
    results = [np.load(output / f"{way}.rank{rank}.npz") for rank in range(ranks)]
    for result in results[1:]:
        for what in ("digests", "gradients", "losses"):
            np.testing.assert_array_equal(result[what], results[0][what], err_msg=what)
    expected = dict(np.load(reference / f"{name}.rank0.npz"))
    expected["losses"] = expected["losses"] * SCENARIOS[name].accumulation  # the loop sums them, the Trainer averages
    assert_equal_within_rounding(results[0], expected, SCENARIOS[name].tolerances)
