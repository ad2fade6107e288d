"""What a training is: each goes on from what it wrote, whatever was trained before, beside or within it."""

import json
import shutil

import pytest

from tests.harness import run_ranks

SHARED = ("stage_1", "stage_2", "twin_1", "twin_2", "fold_1", "fold_2")


def train(output, *names, again="", **env):
    output.mkdir(exist_ok=True)
    options = {"restarts": ("--max-restarts", 9), "resume": ("--resume",), "": ()}[again]
    env = {"FAULT_FOLDER": str(output), **env}
    number = len(list(output.glob("logs*")))
    logs = output / f"logs{number}"
    return run_ranks("trainings.py", output, *names, ranks=2, backend="mpi", log_dir=logs, env=env, options=options)


def end(output, name, rank=0):
    return json.loads((output / f"done/{name}.rank{rank}.json").read_text())


def forget(output, *names):
    for name in names:
        for path in (output / "done").glob(f"{name}.*"):
            path.unlink()


@pytest.fixture(scope="module")
def never(tmp_path_factory):
    """Everything, never stopped."""
    output = tmp_path_factory.mktemp("never")
    finished = train(output, *SHARED, "second", "probing", "limited", SETTINGS=json.dumps({"limited": {"stop_at": 0}}))
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return output


def test_restarts_of_trainings_that_share_a_folder_take_their_own_checkpoints(never, tmp_path):
    faults = "stage_2:2:1:SIGKILL:0.01 stage_2:5:0:SIGKILL:0.01 twin_2:1:0:SIGKILL:0.01 fold_2:1:1:SIGKILL:0.01"
    finished = train(tmp_path, *SHARED, again="restarts", FAULTS=faults)
    told = f"{finished.stdout}\n{finished.stderr}"
    assert finished.returncode == 0, told
    for name in SHARED:
        for rank in (0, 1):
            assert end(tmp_path, name, rank)["model"] == end(never, name, rank)["model"], (name, told)
    logs = [(tmp_path / f"logs0/restart_{number}/rank_0.log").read_text() for number in range(1, 5)]
    for log, name in (
        (logs[0], "stages/checkpoint-4"),
        (logs[2], "twins/checkpoint-4"),
        (logs[3], "folds/checkpoint-4"),
    ):
        assert f"training continues from the start: {tmp_path}/{name} is of another training" in log
    assert f"training continues from {tmp_path}/stages/checkpoint-4\n" in logs[1]
    assert len(end(tmp_path, "stage_2")["rows"]) == 2


def test_each_goes_on_after_a_stage_was_skipped_and_from_after_a_probe(never, tmp_path):
    """As folds do with a folder each; and a Trainer within a callback has called ``train()`` in between."""
    names = ("first", "second", "probing")
    for name, checkpoint in (("second", "checkpoint-2"), ("probing", "checkpoint-4")):
        fault = f"{name}:{checkpoint[-1]}:1:exception:0"
        failed = train(tmp_path, *names, again="resume", FAULTS=fault, EXPLICIT="second")
        said = f"the newest whole checkpoint is {tmp_path}/{name}/{checkpoint}: --resume goes on from it"
        assert failed.returncode == 1 and said in failed.stderr, f"{failed.stdout}\n{failed.stderr}"
    finished = train(tmp_path, *names, again="resume")
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert (len(end(tmp_path, "second")["rows"]), len(end(tmp_path, "probing")["rows"])) == (4, 2)
    for name in ("second", "probing"):
        assert end(tmp_path, name)["model"] == end(never, name)["model"]


STOPPED = ("limited", "patient", "ignoring", "timed", "first")
CHANGED = {
    "patient": {"patience": 4},
    "first": {"learning_rate": 2e-3},
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Trainings that ended, some by a callback; again, as the script says; with ``--resume`` and other settings."""
    output = tmp_path_factory.mktemp("stopped")
    ends, told = [], []
    explicitly = ("", " ".join(STOPPED), {"timed": {"by_rank": True}})
    for again, explicit, settings in (("", "", {}), explicitly, ("resume", "", CHANGED)):
        forget(output, *STOPPED)
        finished = train(output, *STOPPED, again=again, EXPLICIT=explicit, SETTINGS=json.dumps(settings))
        told.append(f"{finished.stdout}\n{finished.stderr}")
        assert finished.returncode == 0, told[-1]
        ends.append({name: end(output, name) for name in STOPPED})
        for step in (4, 6):
            shutil.rmtree(output / f"ignoring/checkpoint-{step}")
    return output, ends, told


def test_a_run_that_a_time_limit_stopped_goes_on_though_the_limit_is_as_it_was(never, stopped):
    output, (first, again, _), told = stopped
    assert (first["limited"]["step"], len(again["limited"]["rows"])) == (3, 3)
    assert f"A callback stopped the training of {output}/limited/checkpoint-3 at step 3; now it goes on." in told[1]
    assert again["limited"]["model"] == end(never, "limited")["model"]


def test_early_stopping_goes_on_when_its_patience_is_raised(stopped):
    output, (first, again, changed), told = stopped
    assert (first["patient"]["step"], again["patient"]["rows"]) == (3, [])
    assert f"No step is trained: a callback stopped the training of {output}/patient/checkpoint-3" in told[1]
    assert (changed["patient"]["step"], len(changed["patient"]["rows"])) == (5, 2)
    assert f"A callback stopped the training of {output}/patient/checkpoint-3 at step 3; now it goes on." in told[2]


def test_a_checkpoint_that_may_be_anothers_is_not_taken_in_silence(stopped):
    output, (_, again, changed), _ = stopped
    assert again["first"]["rows"] == []
    reason = "may be of another training: learning_rate was 0.001 and is 0.002. To go on from it, say train("
    assert changed["first"]["refused"].startswith(f"--resume: {output}/first/checkpoint-4 {reason}")


def test_rows_are_read_again_if_the_script_says_so(stopped):
    """``ignore_data_skip``: the epoch in which training was stopped begins again, as in one process."""
    _, (first, again, changed), _ = stopped
    for resumed in (again["ignoring"], changed["ignoring"]):
        assert resumed["step"] == 6 and resumed["rows"] == first["ignoring"]["rows"][:4]


def test_ranks_with_other_folders_are_told_so(stopped):
    output, (_, again, _), _ = stopped
    homes = f"the ranks have other output_dir, '{output}/timed' and '{output}/timed1'"
    assert homes in again["timed"]["refused"]
