"""Loops as users write them, prepared by ``dp.prepare``, end as the Trainer: in one process, and with the same bits."""

import numpy as np
import pytest

from mindnlp_dp_plugin.config import DataParallelConfig
from tests.distributed.jobs import jobs
from tests.distributed.test_oracle import assert_equal_within_rounding
from tests.programs.own_loops import SAME_SETTINGS, WAYS
from tests.programs.scenarios import SCENARIOS


@pytest.fixture(scope="module", params=jobs((2, "mpi")), ids=str)
def runs(request, output_of, in_turn):
    """(number of ranks, results of the Trainer in one process, results of the ranks)."""
    ranks, backend = request.param
    reference = output_of("train_scenarios.py", ranks, *SCENARIOS, timeout=900)
    return ranks, reference, in_turn("own_loops.py", ranks, backend)


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
    if SCENARIOS[name].arguments.get("fp16"):
        expected["gradients"] = expected["gradients"] / DataParallelConfig().fp16_initial_scale  # the loop's are true
    assert_equal_within_rounding(results[0], expected, SCENARIOS[name].tolerances)


@pytest.mark.parametrize("way", SAME_SETTINGS)
def test_it_takes_the_steps_of_the_trainer_on_the_same_ranks_to_the_last_bit(runs, way):
    ranks, _, output = runs
    for rank in range(ranks):
        loop, trainer = (np.load(output / f"{kind}{way}.rank{rank}.npz") for kind in ("", "trainer."))
        np.testing.assert_array_equal(loop["digests"], trainer["digests"])
        num_standing = len(loop["digests"]) - len(set(loop["digests"]))
        assert (num_standing > 0) == ("overflowing" in way), "of steps that overflow, at least two are left out"
