"""N ranks evaluate and predict as one process does: to the last bit, and all of them alike."""

import functools

import numpy as np
import pytest

from tests.distributed.jobs import jobs
from tests.harness import decorated_functions, run_ranks_successfully

PROGRAM = "evaluation_scenarios.py"


def run_scenarios(output, ranks, backend, emulated_ranks):
    run_ranks_successfully(
        PROGRAM, output, emulated_ranks, ranks=ranks, backend=backend, log_dir=output / "logs", timeout=600
    )
    return output


def results(output, scenario, rank):
    failure = output / f"{scenario}.rank{rank}.txt"
    assert not failure.exists(), f"rank {rank}: {failure.read_text()}"
    return dict(np.load(output / f"{scenario}.rank{rank}.npz"))


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """What one process makes of all scenarios, to be compared with a number of ranks: a function of that number."""

    @functools.cache
    def score(num_ranks):
        return run_scenarios(tmp_path_factory.mktemp(f"one_process_as_{num_ranks}"), 1, "auto", num_ranks)

    return score


@pytest.fixture(scope="module", params=jobs((2, "mccl")), ids=str)
def runs(request, one_process, tmp_path_factory):
    """The same on ranks: (number of ranks, results of one process, results of the ranks)."""
    num_ranks, backend = request.param
    output = tmp_path_factory.mktemp(f"{backend}_{num_ranks}")
    return num_ranks, one_process(num_ranks), run_scenarios(output, num_ranks, backend, num_ranks)


@pytest.mark.parametrize("scenario", decorated_functions(PROGRAM))
def test_ranks_equal_one_process(runs, scenario):
    num_ranks, reference, output = runs
    of_ranks = [results(output, scenario, rank) for rank in range(num_ranks)]
    expected = results(reference, scenario, 0) or of_ranks[0]  # some have nothing to compare but the ranks
    for result in of_ranks:
        assert result.keys() == expected.keys()
        for name, value in expected.items():
            assert result[name].dtype == value.dtype, name
            np.testing.assert_array_equal(result[name], value, err_msg=name)
