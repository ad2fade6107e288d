"""Checkpoints that are written while training goes on are those that training waits for."""

import json
import re
import zipfile

import pytest

from mindnlp_dp_plugin.checkpoint import store
from tests.harness import run_ranks

MAX_STEPS = 12  # 9 batches of each rank, 2 in a step: epochs end within steps, too


@pytest.fixture(scope="module", params=["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def saved(request, output_of):
    return output_of("async_save.py", ranks=2, backend=request.param)


def test_training_ends_the_same(saved):
    for rank in (0, 1):
        ends = json.loads((saved / f"ended.rank{rank}.json").read_text())
        assert all(ends["at_once"].pop("whole_at_once"))
        ends["later"].pop("whole_at_once")
        assert ends["later"] == ends["at_once"]


def test_each_file_is_the_same(saved):
    for step in range(1, 5):
        at_once, later = (contents(saved / way / f"checkpoint-{step}") for way in ("at_once", "later"))
        assert at_once.keys() == later.keys() and "optimizer.ckpt" in later
        for name, content in at_once.items():
            assert later[name] == content, name


def contents(folder):
    assert store.problem_of(folder) is None
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in (store.RECORD, store.STATE):  # they name the folder
        del files[name]
    for name in ("optimizer.ckpt", "scheduler.json"):  # an archive records when it was written
        files[name] = zipfile.ZipFile(folder / name).read("archive/data.pkl")
    return files


def test_nothing_else_is_left(saved):
    assert sorted(path.name for path in (saved / "later").iterdir()) == [f"checkpoint-{step}" for step in range(1, 5)]


def train(output, backend, faults="", max_restarts=0, is_async=True):
    (output / "tmp").mkdir(parents=True)
    variables = {"FAULTS": faults, "FAULT_FOLDER": str(output), "TMPDIR": str(output / "tmp")}
    return run_ranks(
        "killed_often.py", output, MAX_STEPS,
        ranks=2, backend=backend, log_dir=output / "logs", options=("--max-restarts", max_restarts),
        env={**variables, "MINDNLP_DP_ASYNC_SAVE": str(int(is_async))},
    )  # fmt: skip


def ends(output):
    return [json.loads((output / f"end.rank{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("backend", ["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def test_killed_and_restarted_it_ends_as_if_it_had_never_been(tmp_path, backend):
    never, again = tmp_path / "never", tmp_path / "again"
    assert train(never, backend, is_async=False).returncode == 0
    faults = "backward:4:1:SIGKILL:0.01 backward:9:0:exception:0.01"
    finished = train(again, backend, faults, max_restarts=2)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert ends(again) == ends(never)
    assert not list((again / "tmp").glob("tmp*")), "what a killed rank had in TMPDIR"
    for number, done in ((1, 4), (2, 9)):
        log = (again / f"logs/restart_{number}/rank_0.log").read_text()
        goes_on = re.search(f"Restart {number}: training continues from {again}/trainer/checkpoint-([0-9]+)\n", log)
        assert done - 2 <= int(goes_on[1]) <= done, "a step may be done before the checkpoint of the last is whole"
    assert sorted(path.name for path in (again / "trainer").iterdir()) == ["checkpoint-11", "checkpoint-12"]
