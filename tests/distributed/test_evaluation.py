"""N ranks evaluate and predict as one process does: to the last bit, and all of them alike."""

import ast

import numpy as np
import pytest

from tests.harness import PROGRAMS, run_ranks_successfully

PROGRAM = "evaluation_scenarios.py"


def names_of_scenarios():
    """The functions under ``@scenario``, read from the program's text: importing it would run it."""
    functions = [node for node in ast.parse((PROGRAMS / PROGRAM).read_text()).body if isinstance(node, ast.FunctionDef)]
    return [function.name for function in functions if function.decorator_list]


def run_scenarios(output, ranks, backend, emulated_ranks):
    run_ranks_successfully(
        PROGRAM, output, emulated_ranks, ranks=ranks, backend=backend, log_dir=output / "logs", timeout=600
    )
    return output


def results(output, scenario, rank):
    failure = output / f"{scenario}.rank{rank}.txt"
    assert not failure.exists(), f"rank {rank}: {failure.read_text()}"
    return dict(np.load(output / f"{scenario}.rank{rank}.npz"))


@pytest.fixture(scope="module", params=[2, 3], ids=["2_ranks", "3_ranks"])
def one_process(request, tmp_path_factory):
    """What one process makes of all scenarios, to be compared with 2 or 3 ranks."""
    output = tmp_path_factory.mktemp(f"one_process_as_{request.param}")
    return request.param, run_scenarios(output, 1, "auto", request.param)


@pytest.fixture(scope="module", params=["mpi", "mccl"])
def runs(request, one_process, tmp_path_factory):
    """The same on ranks: (number of ranks, results of one process, results of the ranks)."""
    num_ranks, reference = one_process
    output = tmp_path_factory.mktemp(f"{request.param}_{num_ranks}")
    return num_ranks, reference, run_scenarios(output, num_ranks, request.param, num_ranks)


@pytest.mark.parametrize("scenario", names_of_scenarios())
def test_ranks_equal_one_process(runs, scenario):
    num_ranks, reference, output = runs
    of_ranks = [results(output, scenario, rank) for rank in range(num_ranks)]
    expected = results(reference, scenario, 0) or of_ranks[0]  # some have nothing to compare but the ranks
    for result in of_ranks:
        assert result.keys() == expected.keys()
        for name, value in expected.items():
            assert result[name].dtype == value.dtype, name
            np.testing.assert_array_equal(result[name], value, err_msg=name)
