"""A run that was stopped, or killed, and resumed ends as one that never stopped: to the last bit."""

import json
import shutil
import stat

import pytest

from mindnlp_dp_plugin.trainer import checkpoints
from tests.harness import run_ranks, run_ranks_successfully


@pytest.fixture(scope="module", params=["mpi", "mccl"])
def stopped_and_resumed(request, tmp_path_factory):
    """Every scenario without a stop and from each of its checkpoints."""
    output = tmp_path_factory.mktemp(request.param)
    run_ranks_successfully("resume_scenarios.py", output, ranks=2, backend=request.param, log_dir=output / "logs")
    return output


@pytest.mark.parametrize(
    "scenario, saved_at",
    {
        "two_epochs": [2, 4, 6, 8, 10, 12],
        "accumulated": [1, 2, 3, 4, 5],
        "accumulated_saved_at_epoch_ends": [2, 5, 7],
        "by_batch": [2, 4, 6],
        "host_random": [1, 2, 3],
        "stops_early": [1, 2, 3, 4],
        "sgd": [2, 4],
    }.items(),
)
def test_resumed_from_any_checkpoint_it_ends_as_if_never_stopped(stopped_and_resumed, scenario, saved_at):
    for ends in json.loads((stopped_and_resumed / f"{scenario}.json").read_text()):
        whole = ends.pop("whole")
        assert sorted(ends) == sorted(f"checkpoint-{step}" for step in saved_at)
        for name, end in ends.items():
            assert end.pop("loss") == pytest.approx(whole["loss"], abs=1e-6), name
            assert end == {key: whole[key] for key in end}, name


# moment:step:rank:way:delay, see tests/programs/faults.py; a save takes about 10 ms.
KILLS = (
    "backward:0:1:SIGKILL:0.01",
    "save:2:0:SIGKILL:0.003",
    "save:4:0:SIGKILL:0.007",
    "evaluation:6:1:SIGKILL:0.005",
    "save:7:1:SIGKILL:0.002",
    "backward:9:0:SIGKILL:0.02",
)


@pytest.fixture(scope="module")
def never_killed(tmp_path_factory):
    output = tmp_path_factory.mktemp("never_killed")
    assert run_killed(output).returncode == 0
    return output


def test_killed_anywhere_and_started_again_it_ends_as_if_never_killed(never_killed, tmp_path):
    for kill in KILLS:
        finished = run_killed(tmp_path, "resume", faults=kill)
        assert finished.returncode == 137, f"{kill}: {finished.stdout}\n{finished.stderr}"
        for folder in (tmp_path / "trainer").iterdir():
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            checkpoints.read_record(folder)  # which also says that nothing unfinished is left
    assert run_killed(tmp_path, "resume").returncode == 0
    assert_same_end(tmp_path, never_killed)


def test_killed_and_restarted_by_the_launcher_it_ends_as_if_never_killed(never_killed, tmp_path):
    shutil.copytree(never_killed / "trainer/checkpoint-12", tmp_path / "trainer/checkpoint-5")  # of another job
    finished = run_killed(tmp_path, faults="backward:1:0:SIGKILL:0.01 save:7:1:SIGSEGV:0.004", max_restarts=2)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert "restart 1 of 2 in 1 s" in finished.stderr and "restart 2 of 2 in 2 s" in finished.stderr
    assert "killed by SIGKILL" in finished.stderr and "killed by SIGSEGV" in finished.stderr
    for start, came_from in ((1, "checkpoint-1\n"), (2, "checkpoint-")):
        log = (tmp_path / f"logs/restart_{start}/rank_0.log").read_text()
        assert f"Restart {start}: training goes on from {tmp_path}/trainer/{came_from}" in log
    assert_same_end(tmp_path, never_killed)


def assert_same_end(output, never_killed):
    expected = [json.loads((never_killed / f"end.rank{rank}.json").read_text()) for rank in (0, 1)]
    assert [json.loads((output / f"end.rank{rank}.json").read_text()) for rank in (0, 1)] == expected
    assert expected[0] == expected[1]
    assert expected[0]["last"] != expected[0]["best"]
    left = sorted(folder.name for folder in (output / "trainer").iterdir())
    assert left == sorted([expected[0]["best_checkpoint"], "checkpoint-12"]), "rotation keeps two, the best among them"


def run_killed(output, *arguments, faults="", max_restarts=0):
    env = {"FAULTS": faults, "FAULT_FOLDER": str(output)}
    options = ("--max-restarts", max_restarts)
    command = ("killed.py", output, 12, *arguments)
    return run_ranks(*command, ranks=2, backend="mpi", log_dir=output / "logs", env=env, options=options)


def said(output, whole, ranks):
    run_ranks_successfully(
        "resume_mistakes.py", output, whole, ranks=ranks, backend="mpi", log_dir=output / "logs", timeout=120
    )
    of_ranks = [json.loads((output / f"said.rank{rank}.json").read_text()) for rank in range(ranks)]
    assert all(words == of_ranks[0] for words in of_ranks)
    return of_ranks[0]


def test_what_cannot_be_resumed_is_named_and_what_can_be_is_offered(stopped_and_resumed, tmp_path):
    words = said(tmp_path, stopped_and_resumed / "two_epochs", ranks=2)
    problems = {
        "missing_weights": "model.safetensors is missing",
        "half_an_optimizer": "optimizer.ckpt has ",
        "half_a_record": "data_parallel.json is not JSON",
        "no_record": "data_parallel.json is missing",
        "another_format": "data_parallel.json has format 0",
        "nothing": "there is no such folder",
    }
    for name, problem in problems.items():
        assert f"{name}/checkpoint-8': {problem}" in words[name]
        assert f"the newest whole checkpoint is '{tmp_path / name / 'checkpoint-12'}'" in words[name]
    changes = {
        "other_batch_size": "batch size was 4 and is 5",
        "other_accumulation": "gradient_accumulation_steps was 1 and is 2",
        "other_seed": "seed was 42 and is 7",
        "other_rows": "number of rows was 48 and is 40",
    }
    for name, change in changes.items():
        assert f"{change}. It was saved in the middle of epoch 0" in words[name]


def test_another_number_of_ranks_goes_on_from_the_end_of_an_epoch(stopped_and_resumed, tmp_path):
    words = said(tmp_path, stopped_and_resumed / "two_epochs", ranks=3)
    assert "world_size was 2 and is 3" in words["middle_of_an_epoch"]
    # 48 rows on 3 ranks in batches of 4: the epoch that was left takes 4 steps.
    assert words["end_of_an_epoch"] == "ended at step 10, epoch 2.0"
