"""What goes wrong on ranks is named, and a job that was killed or stopped goes on as if it never was."""

import json
import re

import pytest

from tests.harness import run_ranks
from tests.mindnlp05.conftest import PROGRAMS

ENGINES = ["mpi", pytest.param("mccl", marks=pytest.mark.slow)]


def run(output, way="", backend="mpi", env=None, options=()):
    output.mkdir(exist_ok=True)
    log_dir = output / "logs"
    program = PROGRAMS / "disturbed.py"
    return run_ranks(program, output, way, ranks=2, backend=backend, log_dir=log_dir, env=env, options=options)


def ends_of(output):
    return [json.loads((output / f"rank{rank}.json").read_text()) for rank in (0, 1)]


def result_of(output):
    return json.loads((output / "logs" / "result.json").read_text())


@pytest.fixture(scope="module")
def never(tmp_path_factory):
    """A job that nobody disturbs."""
    output = tmp_path_factory.mktemp("never")
    finished = run(output)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return finished, output


def test_its_throughput_is_told_and_tensorboard_written_once(never):
    finished, output = never
    said = re.findall(r"Trained on 2 ranks: 5 steps of 8 rows \(global batch\)", finished.stdout)
    assert len(said) == 1 and "waiting for communication, rank by rank" in finished.stdout
    assert len([*(output / "training").glob("runs/*/events.out.tfevents.*")]) == 1
    assert result_of(output)["status"] == "succeeded"


@pytest.mark.parametrize("backend", ENGINES)
def test_killed_and_restarted_it_ends_as_if_it_never_was(tmp_path, never, backend):
    finished = run(tmp_path, "killed", backend, options=("--max-restarts", 1))
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert "rank 1" in finished.stderr and "killed by SIGKILL" in finished.stderr
    assert result_of(tmp_path)["restarts"] == 1
    log = (tmp_path / "logs" / "restart_1" / "rank_0.log").read_text()
    assert f"Restart 1: training continues from {tmp_path / 'training' / 'checkpoint-2'}\n" in log
    assert ends_of(tmp_path) == ends_of(never[1])


@pytest.mark.parametrize("backend", ENGINES)
def test_told_to_end_it_saves_and_goes_on_later(tmp_path, never, backend):
    finished = run(tmp_path, "stopped", backend, options=("--resume",))
    assert finished.returncode == 143, f"{finished.stdout}\n{finished.stderr}"
    said = re.search(r"^mindnlp-dp: stopped by SIGTERM after step (\d+), which (.*) holds", finished.stderr, re.M)
    assert said[2] == str(tmp_path / "training" / f"checkpoint-{said[1]}")
    assert (result_of(tmp_path)["status"], result_of(tmp_path)["last_checkpoint"]) == ("stopped", said[2])
    finished = run(tmp_path, "stopped", backend, options=("--resume",))
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert f"--resume: training continues from {said[2]}\n" in (tmp_path / "logs" / "rank_0.log").read_text()
    assert ends_of(tmp_path) == ends_of(never[1])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["mpi", "mccl"])
def test_a_rank_that_hangs_is_named_with_every_stack(tmp_path, backend):
    finished = run(tmp_path, "hangs", backend, env={"MINDNLP_DP_TIMEOUT": "20"})
    assert finished.returncode != 0
    assert "longer than timeout=20 (MINDNLP_DP_TIMEOUT, seconds)" in finished.stderr
    assert "in on_step_begin" in finished.stderr
    assert result_of(tmp_path)["status"] == "failed"


def test_replicas_that_differ_are_named(tmp_path):
    finished = run(tmp_path, "apart", env={"MINDNLP_DP_CHECK_REPLICAS_EVERY": "1"})
    assert finished.returncode != 0
    assert re.search(r"Replicas differ after step 3: .*classifier\.bias on rank\(s\) 1", finished.stderr)
    assert result_of(tmp_path)["status"] == "failed"


def test_a_callback_that_sets_another_number_on_one_rank_is_named(tmp_path):
    finished = run(tmp_path, "rate")
    assert finished.returncode == 1
    assert "Before optimizer step 3, weight_decay of parameter group 0 is 0" in finished.stderr


def test_what_all_ranks_caught_leaves_a_trainer_that_works(tmp_path):
    finished = run(tmp_path, "caught")
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    first, second = ends_of(tmp_path)
    assert first == second and (tmp_path / "saved" / "model.safetensors").exists()


def test_what_one_rank_caught_ends_the_job_and_is_shown_first(tmp_path):
    finished = run(tmp_path, "caught_by_one")
    assert finished.returncode == 1
    told = finished.stderr[finished.stderr.index("failed first") :]
    assert "DataParallelError: rank 1: its train() raised MemoryError: out of memory" in told.splitlines()[1]


def test_evaluating_other_weights_on_one_rank_is_refused(tmp_path):
    finished = run(tmp_path, "scored_apart")
    assert finished.returncode == 1
    assert re.search(r"Replicas differ after step 3: .*classifier\.bias on rank\(s\) 1", finished.stderr)


def test_an_exchange_of_one_rank_alone_matches_no_other_by_chance(tmp_path):
    finished = run(tmp_path, "exchange", env={"MINDNLP_DP_TIMEOUT": "250"})
    assert finished.returncode == 1
    assert re.search(r"rank 1 (is )?in all_gather_object \(number ", finished.stderr), finished.stderr
    assert "in on_step_begin" in finished.stderr


def test_after_training_a_child_of_a_rank_is_alone(tmp_path, never):
    finished = run(tmp_path, "has_child")
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert "alone 1 [5]" in (tmp_path / "logs" / "rank_1.log").read_text()
    assert ends_of(tmp_path) == ends_of(never[1])
