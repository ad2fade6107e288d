"""A loop that implements ``port.py`` trains as the Trainer does: the core knows no Trainer."""

import numpy as np
import pytest

from tests.distributed.jobs import jobs
from tests.distributed.test_oracle import assert_equal_within_rounding
from tests.programs.scenarios import SCENARIOS

MAIN = (
    *("bert_adamw", "bert_sgd", "accumulation_with_tail", "epoch_shorter_than_accumulation"),
    *("frozen_embeddings", "unused_parameter", "used_by_one_rank", "tied_weights"),
)


@pytest.mark.parametrize("job", jobs((2, "mpi")), ids=str)
def test_a_plain_loop_passes_the_oracle(output_of, job):
    ranks, backend = job
    reference = output_of("train_scenarios.py", ranks, *SCENARIOS, timeout=900)
    output = output_of("toy_door.py", ranks, *MAIN, ranks=ranks, backend=backend, timeout=600)
    for name in MAIN:
        results = [np.load(output / f"{name}.rank{rank}.npz") for rank in range(ranks)]
        for result in results[1:]:
            for what in ("digests", "gradients", "losses"):
                np.testing.assert_array_equal(result[what], results[0][what], err_msg=f"{name}: {what}")
        expected = np.load(reference / f"{name}.rank0.npz")
        assert_equal_within_rounding(results[0], expected, SCENARIOS[name].tolerances)
