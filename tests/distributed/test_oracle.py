"""N ranks train as one process with N times the batch would, and as each other to the last bit."""

import numpy as np
import pytest

from tests.harness import run_ranks_successfully
from tests.programs.scenarios import SCENARIOS

ENGINES = ["mpi", "mccl"]


@pytest.fixture(scope="module", params=[2, 3], ids=["2_ranks", "3_ranks"])
def one_process(request, tmp_path_factory):
    """What one process makes of all scenarios, with the batch of 2 or 3 ranks."""
    output = tmp_path_factory.mktemp(f"one_process_as_{request.param}")
    arguments = (output, request.param, *SCENARIOS)
    run_ranks_successfully("train_scenarios.py", *arguments, ranks=1, backend="auto", log_dir=output / "logs")
    return request.param, output


@pytest.fixture(scope="module", params=ENGINES)
def runs(request, one_process, tmp_path_factory):
    """The same scenarios on ranks: (number of ranks, results of one process, results of the ranks)."""
    num_ranks, reference = one_process
    output = tmp_path_factory.mktemp(f"{request.param}_{num_ranks}")
    arguments = (output, num_ranks, *SCENARIOS)
    run_ranks_successfully(
        "train_scenarios.py", *arguments, ranks=num_ranks, backend=request.param, log_dir=output / "logs", timeout=600
    )
    return num_ranks, reference, output


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_ranks_equal_one_process_with_the_whole_batch(runs, scenario):
    num_ranks, reference, output = runs
    expected = np.load(reference / f"{scenario}.rank0.npz")
    results = [np.load(output / f"{scenario}.rank{rank}.npz") for rank in range(num_ranks)]

    for result in results[1:]:
        np.testing.assert_array_equal(result["digests"], results[0]["digests"])
        np.testing.assert_array_equal(result["gradients"], results[0]["gradients"])
        np.testing.assert_array_equal(result["losses"], results[0]["losses"])
        assert result["train_loss"] == results[0]["train_loss"]

    assert len(results[0]["digests"]) == len(expected["digests"]) > 0
    assert len(set(results[0]["digests"])) == len(results[0]["digests"]), "parameters stood still"
    largest = np.abs(expected["gradients"]).max(axis=1, keepdims=True)
    assert np.all(np.abs(results[0]["gradients"] - expected["gradients"]) <= 1e-6 * largest)
    np.testing.assert_allclose(results[0]["losses"], expected["losses"], rtol=0, atol=1e-5)
    np.testing.assert_allclose(results[0]["parameters"], expected["parameters"], rtol=0, atol=2e-6)
