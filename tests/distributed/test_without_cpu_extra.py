"""Without numba and threadpoolctl, the extra [cpu], ranks train, evaluate and resume as one process does."""

import json

import numpy as np
import pytest

from tests.distributed.test_evaluation import results
from tests.distributed.test_oracle import assert_equal_within_rounding
from tests.programs.scenarios import SCENARIOS

# One scenario each: only operators ask for numba and threadpoolctl, whatever the training is.
TRAINED = ["groups_and_schedule"]
EVALUATED = ["without_the_last_batch"]
RESUMED = ["host_random"]
COMPARED = [",".join(["train_scenarios", "2", *TRAINED]), ",".join(["evaluation_scenarios", "2", *EVALUATED])]


@pytest.fixture(scope="module")
def one_process(output_of):
    return output_of("without_cpu_extra.py", *COMPARED)


@pytest.fixture(scope="module")
def ranks(output_of):
    resumed = ",".join(["resume_scenarios", *RESUMED])
    return output_of("without_cpu_extra.py", *COMPARED, resumed, ranks=2, backend="mpi")


@pytest.mark.parametrize("name", TRAINED)
def test_ranks_train_as_one_process(one_process, ranks, name):
    expected = np.load(one_process / f"{name}.rank0.npz")
    first, second = (np.load(ranks / f"{name}.rank{rank}.npz") for rank in range(2))
    np.testing.assert_array_equal(first["digests"], second["digests"])
    assert_equal_within_rounding(first, expected, SCENARIOS[name].tolerances)


@pytest.mark.parametrize("name", EVALUATED)
def test_ranks_evaluate_as_one_process(one_process, ranks, name):
    expected = results(one_process, name, 0)
    assert expected
    for rank in range(2):
        result = results(ranks, name, rank)
        assert result.keys() == expected.keys()
        for key, value in expected.items():
            np.testing.assert_array_equal(result[key], value, err_msg=key)


@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_ends_as_one_that_never_stopped(ranks, name):
    for ends in json.loads((ranks / f"{name}.json").read_text()):
        whole = ends.pop("whole")
        assert len(ends) > 2
        for end in ends.values():
            assert end["parameters"] == whole["parameters"] and end["step"] == whole["step"]


def test_it_is_said_once_with_what_is_missing(one_process, ranks):
    line = "numba is not installed: on this CPU models compute with MindNLP's operators, which are slower. "
    line += "pip install 'mindnlp-dp-plugin[cpu]' brings faster ones.\n"
    assert (one_process / "said.rank0.txt").read_text().count(line) == 1
    assert (ranks / "said.rank0.txt").read_text().count(line) == 1
    assert "numba" not in (ranks / "said.rank1.txt").read_text()
