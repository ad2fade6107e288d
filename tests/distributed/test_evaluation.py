"""N ranks evaluate and predict as one process does: to the last bit, and all of them alike."""

import numpy as np
import pytest

from tests.distributed.jobs import jobs
from tests.harness import decorated_functions

PROGRAM = "evaluation_scenarios.py"


def results(output, scenario, rank):
    failure = output / f"{scenario}.rank{rank}.txt"
    assert not failure.exists(), f"rank {rank}: {failure.read_text()}"
    return dict(np.load(output / f"{scenario}.rank{rank}.npz"))


@pytest.fixture(scope="module", params=jobs((2, "mccl")), ids=str)
def runs(request, output_of):
    """Every scenario: (number of ranks, results of one process to be compared with them, results of the ranks)."""
    ranks, backend = request.param
    one_process = output_of(PROGRAM, ranks, timeout=600)
    return ranks, one_process, output_of(PROGRAM, ranks, ranks=ranks, backend=backend, timeout=600)


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
