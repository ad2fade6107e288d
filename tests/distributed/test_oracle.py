"""N ranks train as one process with N times the batch would, and as each other to the last bit."""

import functools

import numpy as np
import pytest

from tests.distributed.jobs import jobs
from tests.harness import run_ranks_successfully
from tests.programs.scenarios import SCENARIOS

# float16 and bfloat16 keep 11 and 8 bits: one rounding changes a number by up to this much of itself.
ROUNDING = {"float16": 2.0**-11, "bfloat16": 2.0**-8}


def run_scenarios(output, ranks, backend, emulated_ranks):
    arguments = (output, emulated_ranks, *SCENARIOS)
    run_ranks_successfully(
        "train_scenarios.py", *arguments, ranks=ranks, backend=backend, log_dir=output / "logs", timeout=600
    )
    return output


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """What one process makes of all scenarios, with the batch of a number of ranks: a function of that number."""

    @functools.cache
    def train(num_ranks):
        return run_scenarios(tmp_path_factory.mktemp(f"one_process_as_{num_ranks}"), 1, "auto", num_ranks)

    return train


@pytest.fixture(scope="module", params=jobs((2, "mpi"), (2, "mccl")), ids=str)
def runs(request, one_process, tmp_path_factory):
    """The same scenarios on ranks: (number of ranks, results of one process, results of the ranks)."""
    num_ranks, backend = request.param
    output = tmp_path_factory.mktemp(f"{backend}_{num_ranks}")
    return num_ranks, one_process(num_ranks), run_scenarios(output, num_ranks, backend, num_ranks)


def assert_equal_within_rounding(result, expected, scenario, num_roundings=1):
    assert len(result["digests"]) == len(expected["digests"]) > 0
    assert len(set(result["digests"])) == len(result["digests"]), "parameters stood still"
    of_gradients, of_losses, of_parameters = tolerances(scenario)
    largest = np.abs(expected["gradients"]).max(axis=1, keepdims=True)
    allowed = num_roundings * of_gradients * largest
    assert np.all(np.abs(result["gradients"] - expected["gradients"]) <= allowed)
    np.testing.assert_allclose(result["losses"], expected["losses"], rtol=0, atol=of_losses)
    np.testing.assert_allclose(result["parameters"], expected["parameters"], rtol=0, atol=of_parameters)


def tolerances(scenario):
    """Of gradients, relative to the largest of the step; of losses; of parameters."""
    if scenario.change == "float16":
        # The one process computes in float32. Gradients are rounded by some ten operators on their way back, and
        # where LayerNorm sums them over rows and words. Parameters are at most 1 and rounded once a step.
        rounding = ROUNDING["float16"]
        return 16 * rounding, 2 * rounding, scenario.num_steps * rounding
    if scenario.change == "half_precision_weights":
        # Gradients are rounded to bfloat16 on each rank, and once more when they are averaged. A weight that is then
        # rounded to its other neighbour moves the logits by that part of themselves.
        rounding = ROUNDING["bfloat16"]
        return 2 * rounding, rounding, scenario.num_steps * rounding
    return 1e-6, 1e-5, 2e-6


@pytest.mark.parametrize("name", SCENARIOS)
def test_ranks_equal_one_process_with_the_whole_batch(runs, name):
    num_ranks, reference, output = runs
    expected = np.load(reference / f"{name}.rank0.npz")
    results = [np.load(output / f"{name}.rank{rank}.npz") for rank in range(num_ranks)]

    for result in results[1:]:
        np.testing.assert_array_equal(result["digests"], results[0]["digests"])
        np.testing.assert_array_equal(result["gradients"], results[0]["gradients"])
        np.testing.assert_array_equal(result["losses"], results[0]["losses"])
        assert result["train_loss"] == results[0]["train_loss"]

    assert_equal_within_rounding(results[0], expected, SCENARIOS[name])


@pytest.mark.parametrize("num_ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [name for name, scenario in SCENARIOS.items() if scenario.runs_alone])
def test_one_process_accumulates_to_the_same_average(one_process, num_ranks, name):
    reference = one_process(num_ranks)
    alone, expected = (np.load(reference / f"{name}.{kind}.npz") for kind in ("alone", "rank0"))
    # All rows in one batch are summed in one order, batch after batch in another: a rounded sum on either side. Those
    # of ranks and of one process with their batches, above, are nearer to each other.
    assert_equal_within_rounding(alone, expected, SCENARIOS[name], num_roundings=2)


def test_rows_grouped_by_length_are_read_once_an_epoch(runs):
    num_ranks, reference, output = runs
    scenario = SCENARIOS["grouped_by_length"]
    alone = np.load(reference / "grouped_by_length.rank0.npz")
    of_ranks = [np.load(output / f"grouped_by_length.rank{rank}.npz") for rank in range(num_ranks)]

    def steps(name):
        return np.hstack([result[name].reshape(scenario.num_steps, -1) for result in of_ranks])

    expected = alone["rows"].reshape(scenario.num_steps, -1)
    np.testing.assert_array_equal(np.sort(steps("rows")), np.sort(expected))
    first, second = np.split(steps("rows"), 2)
    np.testing.assert_array_equal(np.sort(first, axis=None), np.arange(first.size))
    np.testing.assert_array_equal(np.sort(second, axis=None), np.arange(second.size))
    assert not np.array_equal(np.sort(first), np.sort(second)), "the second epoch is grouped otherwise"
    lengths = steps("lengths")
    assert np.ptp(lengths, axis=1).mean() < 0.75 * np.ptp(lengths)


def test_adapters_alone_travel(runs):
    num_ranks, _, output = runs
    for rank in range(num_ranks):
        result = np.load(output / f"lora.rank{rank}.npz")
        num_steps, num_trained = result["gradients"].shape
        # A step also sums whether there are new parameters, and MCCL's barrier sums a number.
        assert result["num_bytes"] - num_steps * (num_trained + 1) * 4 in (0, 4)
        assert num_trained < result["parameters"].size / 10
