"""What a training is: each goes on from what it wrote, whatever was trained before, beside or within it."""

import json
import shutil

import pytest

from tests.harness import run_ranks


def train(output, *names, again="", **env):
    output.mkdir(exist_ok=True)
    options = {"restarts": ("--max-restarts", 9), "resume": ("--resume",), "": ()}
    options["both"] = options["resume"] + options["restarts"]
    env = {"FAULT_FOLDER": str(output), **env}
    number = len(list(output.glob("logs*")))
    logs = output / f"logs{number}"
    return run_ranks(
        "trainings.py", output, *names, ranks=2, backend="mpi", log_dir=logs, env=env, options=options[again]
    )


def end(output, name, rank=0):
    return json.loads((output / f"done/{name}.rank{rank}.json").read_text())


def forget(output, *names):
    for name in names:
        for path in (output / "done").glob(f"{name}.*"):
            path.unlink()


# The second of a pair is struck before it saves (twins) or behind.
STRUCK_AT = {"twin": 1, "stage": 5}


@pytest.fixture(scope="module")
def restarted(tmp_path_factory):
    """Pairs and one more training, of which each start ends with one that is struck; and what rank 0 has noted."""
    output = tmp_path_factory.mktemp("restarted")
    names = [f"{pair}_{number}" for pair in STRUCK_AT for number in (1, 2)]
    faults = [f"{pair}_2:{step}:1:SIGKILL:0.01" for pair, step in STRUCK_AT.items()]
    strikes = " ".join([*faults, "limited-end:0:1:SIGKILL:0"])
    finished = train(output, *names, "limited", again="restarts", FAULTS=strikes)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return output, "".join(path.read_text() for path in output.glob("logs0/**/rank_0.log"))


@pytest.mark.parametrize("start, pair", [*enumerate(STRUCK_AT, start=1)])
def test_trainings_that_share_a_folder_are_warned_of_and_refused_when_they_are_to_go_on(restarted, start, pair):
    output, warned = restarted
    folder = output / f"{pair}s"
    assert f"output_dir='{folder}': this script trains several times in it, so a restart or --resume" in warned
    refused = end(output, f"{pair}_2")["refused"]
    assert refused.startswith(f"Restart {start}: '{folder}' holds checkpoints of several trainings"), refused
    assert refused == end(output, f"{pair}_2", rank=1)["refused"]


def test_each_goes_on_after_a_stage_was_skipped_and_from_after_a_probe(stopped, tmp_path):
    """As folds do with a folder each; and a Trainer within a callback has called ``train()`` in between."""
    never, *_ = stopped
    names = ("first", "second", "probing")
    failed = train(tmp_path, *names, again="resume", FAULTS="second:2:1:exception:0", EXPLICIT="second")
    said = f"the newest whole checkpoint is {tmp_path}/second/checkpoint-2: --resume goes on from it"
    assert failed.returncode == 1 and said in failed.stderr, f"{failed.stdout}\n{failed.stderr}"
    finished = train(tmp_path, *names, again="both", FAULTS="probing:4:1:SIGKILL:0")
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert (len(end(tmp_path, "second")["rows"]), len(end(tmp_path, "probing")["rows"])) == (4, 2)
    for name in ("second", "probing"):
        assert end(tmp_path, name)["model"] == end(never, name)["model"]


STOPPED = ("limited", "patient", "ignoring", "timed", "first")
NEVER_STOPPED = ("second", "probing", "unlimited")
CHANGED = {
    "patient": {"patience": 5},
    "first": {"learning_rate": 2e-3},
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """Trainings that ended, some by a callback; again, as the script says; with ``--resume`` and other settings.

    Beside the first, those that nothing stops.
    """
    output = tmp_path_factory.mktemp("stopped")
    ends, told = [], []
    explicitly = ("", " ".join(STOPPED), {"timed": {"by_rank": True}})
    for again, explicit, settings in (("", "", {}), explicitly, ("resume", "", CHANGED)):
        forget(output, *STOPPED)
        names = STOPPED if ends else (*STOPPED, *NEVER_STOPPED)
        finished = train(output, *names, again=again, EXPLICIT=explicit, SETTINGS=json.dumps(settings))
        told.append(f"{finished.stdout}\n{finished.stderr}")
        assert finished.returncode == 0, told[-1]
        ends.append({name: end(output, name) for name in STOPPED})
        for step in (4, 6):
            shutil.rmtree(output / f"ignoring/checkpoint-{step}")
    return output, ends, told


def test_a_run_that_a_time_limit_stopped_goes_on_though_the_limit_is_as_it_was(stopped):
    output, (first, again, _), told = stopped
    assert (first["limited"]["step"], len(again["limited"]["rows"])) == (3, 3)
    assert f"A callback stopped the training of {output}/limited/checkpoint-3 at step 3; now it goes on." in told[1]
    assert again["limited"]["model"] == end(output, "unlimited")["model"]


def test_a_restart_leaves_stopped_what_a_callback_stopped(restarted):
    output, log = restarted
    assert f"No step is trained: a callback stopped the training of {output}/limited/checkpoint-3 at step 3." in log
    assert (end(output, "limited")["step"], end(output, "limited")["rows"]) == (3, [])


def test_early_stopping_goes_on_to_its_next_evaluation_and_counts_on(stopped):
    output, runs, told = stopped
    assert [(run["patient"]["step"], len(run["patient"]["rows"])) for run in runs] == [(3, 3), (4, 1), (6, 2)]
    for step, said in ((3, told[1]), (4, told[2])):
        checkpoint = f"{output}/patient/checkpoint-{step}"
        assert f"A callback stopped the training of {checkpoint} at step {step}; now it goes on." in said


def test_a_training_that_has_ended_is_not_begun_anew_in_silence(stopped):
    """Its folder is its own, whatever the script's settings are now."""
    output, (_, again, changed), told = stopped
    assert again["first"]["rows"] == changed["first"]["rows"] == []
    assert f"No step is trained: the training of {output}/first/checkpoint-4 has ended at step 4." in told[2]


def test_rows_are_read_again_if_the_script_says_so(stopped):
    """``ignore_data_skip``: the epoch in which training was stopped begins again, as in one process."""
    _, (first, again, changed), _ = stopped
    for resumed in (again["ignoring"], changed["ignoring"]):
        assert resumed["step"] == 6 and resumed["rows"] == first["ignoring"]["rows"][:4]


def test_ranks_with_other_folders_are_told_so(stopped):
    output, (_, again, _), _ = stopped
    homes = f"The ranks have different output_dir, '{output}/timed' and '{output}/timed1'"
    assert homes in again["timed"]["refused"]
