"""A script that catches what ends its training goes on as in one process, or the job ends with that."""

import json

import numpy as np
import pytest

from tests.harness import run_ranks


@pytest.fixture(scope="module")
def one_process(in_turn):
    return json.loads((in_turn("caught.py") / "stage0.rank0.json").read_text())


@pytest.fixture(scope="module", params=["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def job(request, tmp_path_factory):
    """The folder of ranks, and what was shown of the last training, which raised on rank 1 alone."""
    output = tmp_path_factory.mktemp("caught")
    finished = run_ranks("caught.py", output, 0, 3, ranks=2, backend=request.param, log_dir=output / "logs")
    assert finished.returncode == 1
    return output, finished.stderr


@pytest.mark.parametrize("stage", [0, 3])
def test_what_all_ranks_caught_leaves_a_trainer_that_works(job, one_process, stage):
    output, _ = job
    ranks = [json.loads((output / f"stage{stage}.rank{rank}.json").read_text()) for rank in range(2)]
    assert ranks[0] == ranks[1] and ranks[0]["caught"] == "out of memory"
    for what in ("loss", "predictions", "trained"):
        np.testing.assert_allclose(ranks[0][what], one_process[what], rtol=0, atol=1e-5)
    assert (output / f"saved{stage}" / "model.safetensors").exists()


def test_what_one_rank_caught_ends_the_job_and_is_shown_first(job):
    _, stderr = job
    told = stderr[stderr.index("failed first") :]
    assert "DataParallelError: rank 1: its train() raised MemoryError: out of memory" in told.splitlines()[1]
    assert told.splitlines()[2].startswith("Traceback") and 'raise MemoryError("out of memory")' in told
