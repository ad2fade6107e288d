"""What goes wrong on ranks is named, and a job that was killed or stopped goes on as if it never was."""

import json
import re

import pytest

from tests.harness import run_ranks
from tests.mindnlp05.conftest import PROGRAMS

ENGINES = ["mpi", pytest.param("mccl", marks=pytest.mark.slow)]


def run(output, *ways, backend="mpi", env=None, options=()):
    job = dict(ranks=2, backend=backend, log_dir=output / "logs", env=env, options=options)
    return run_ranks(PROGRAMS / "disturbed.py", output, *ways, **job)


def ends_of(folder):
    """A digest of each rank's parameters, and what it was told."""
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in (0, 1)]


def result_of(output):
    return json.loads((output / "logs" / "result.json").read_text())


@pytest.fixture(scope="module")
def never(tmp_path_factory):
    """A job that nobody disturbs; a child of rank 1 follows."""
    output = tmp_path_factory.mktemp("never")
    finished = run(output, "undisturbed")
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return finished, output


def test_its_throughput_is_told_and_tensorboard_written_once(never):
    finished, output = never
    said = re.findall(r"Trained on 2 ranks: 5 steps of 8 rows \(global batch\)", finished.stdout)
    assert len(said) == 1 and "waiting for communication, rank by rank" in finished.stdout
    assert len([*(output / "undisturbed/training").glob("runs/*/events.out.tfevents.*")]) == 1
    assert result_of(output)["status"] == "succeeded"


def test_after_training_a_child_of_a_rank_is_alone(never):
    assert "alone 1 [5]" in (never[1] / "logs" / "rank_1.log").read_text()


def require_as_never(output, way, never):
    assert ends_of(output / way) == ends_of(never[1] / "undisturbed")


@pytest.mark.parametrize("backend", ENGINES)
def test_killed_and_restarted_it_ends_as_if_it_never_was(tmp_path, never, backend):
    finished = run(tmp_path, "killed", backend=backend, options=("--max-restarts", 1))
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert "rank 1" in finished.stderr and "killed by SIGKILL" in finished.stderr
    assert result_of(tmp_path)["restarts"] == 1
    log = (tmp_path / "logs" / "restart_1" / "rank_0.log").read_text()
    assert f"Restart 1: training continues from {tmp_path / 'killed/training/checkpoint-2'}\n" in log
    require_as_never(tmp_path, "killed", never)


@pytest.mark.parametrize("backend", ENGINES)
def test_told_to_end_it_saves_and_goes_on_later(tmp_path, never, backend):
    finished = run(tmp_path, "stopped", backend=backend, options=("--resume",))
    assert finished.returncode == 143, f"{finished.stdout}\n{finished.stderr}"
    said = re.search(r"^mindnlp-dp: stopped by SIGTERM after step (\d+), which (.*) holds", finished.stderr, re.M)
    assert said[2] == str(tmp_path / f"stopped/training/checkpoint-{said[1]}")
    assert (result_of(tmp_path)["status"], result_of(tmp_path)["last_checkpoint"]) == ("stopped", said[2])
    finished = run(tmp_path, "stopped", backend=backend, options=("--resume",))
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert f"--resume: training continues from {said[2]}\n" in (tmp_path / "logs" / "rank_0.log").read_text()
    require_as_never(tmp_path, "stopped", never)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["mpi", "mccl"])
def test_a_rank_that_hangs_is_named_with_every_stack(tmp_path, backend):
    finished = run(tmp_path, "hangs", backend=backend, env={"MINDNLP_DP_TIMEOUT": "20"})
    assert finished.returncode != 0
    assert "longer than timeout=20 (MINDNLP_DP_TIMEOUT, seconds)" in finished.stderr
    assert "in on_step_begin" in finished.stderr
    assert result_of(tmp_path)["status"] == "failed"


TOLD = {
    "numbered": r"model\.config\.label2id differs between ranks: rank 0 has \{'bad': 0, 'good': 1\}",
    "apart": r"Replicas differ after step 3: .*classifier\.bias on rank\(s\) 1",
    "rate": "Before optimizer step 3, weight_decay of parameter group 0 is 0",
    "scored_apart": r"Replicas differ after step 3: .*classifier\.bias on rank\(s\) 1",
}


@pytest.fixture(scope="module")
def in_turn(tmp_path_factory):
    """Where a job was told of each, and caught what all ranks raised; and what it showed of one rank's, its end."""
    output = tmp_path_factory.mktemp("in_turn")
    finished = run(output, *TOLD, "caught", "caught_by_one")
    assert finished.returncode == 1 and result_of(output)["status"] == "failed"
    return output, finished.stderr


@pytest.mark.parametrize("way", TOLD)
def test_what_ranks_do_otherwise_is_named_on_all_of_them(in_turn, way):
    for _, told in ends_of(in_turn[0] / way):
        assert re.search(TOLD[way], told)


def test_what_all_ranks_caught_leaves_a_trainer_that_works(in_turn):
    first, second = ends_of(in_turn[0] / "caught")
    assert first == second and (in_turn[0] / "caught/saved/model.safetensors").exists()


def test_what_one_rank_caught_ends_the_job_and_is_shown_first(in_turn):
    told = in_turn[1][in_turn[1].index("failed first") :]
    assert "DataParallelError: rank 1: its train() raised MemoryError: out of memory" in told.splitlines()[1]


def test_an_exchange_of_one_rank_alone_matches_no_other_by_chance(tmp_path):
    finished = run(tmp_path, "exchange", env={"MINDNLP_DP_TIMEOUT": "250"})
    assert finished.returncode == 1
    assert re.search(r"rank 1 (is )?in all_gather_object \(number ", finished.stderr), finished.stderr
    assert "in on_step_begin" in finished.stderr
