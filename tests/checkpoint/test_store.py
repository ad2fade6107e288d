"""A checkpoint folder holds whole checkpoints, whenever the one who writes it is killed, and other files are left."""

import errno
import json
import os
import pickle
import re
import sys
import time
import zipfile

import mindspore
import numpy as np
import psutil
import pytest

from mindnlp_dp_plugin import DataParallelError
from mindnlp_dp_plugin.checkpoint import safe_unpickler, store
from tests.checkpoint.records import record
from tests.harness import PROGRAMS, kill_tree, run, start


def test_replaced_by_another_of_the_same_step_one_of_the_two_is_there_whenever_it_is_killed(tmp_path):
    finished = run([sys.executable, PROGRAMS / "killed_replacing.py", tmp_path], env={"MINDNLP_DP_DEFERRED": "1"})
    assert finished.returncode == 0, finished.stderr
    found = []
    for number in range(len(list(tmp_path.iterdir()))):
        home = tmp_path / str(number)
        store.clear_leftovers(home)
        found.append(store.read_record(home / "checkpoint-7").job)
        assert [path.name for path in home.iterdir()] == ["checkpoint-7"]
    num_old = found.count("old")
    assert found == ["old"] * num_old + ["new"] * (len(found) - num_old)
    assert num_old > 10 and len(found) - num_old > 5


OTHERS = {"incomplete-notes.txt", "incomplete-data", "replaced-by", ".hidden"}


def write_checkpoint(home, name="checkpoint-1"):
    with store.atomic_save(home) as scratch:
        written = scratch / name
        written.mkdir()
        (written / "model.safetensors").write_text("weights")
        (written / store.STATE).write_text("{}")
        store.publish(written, home, record(job="some").as_json())
    return home / name


def test_files_of_the_user_are_never_touched(tmp_path):
    for name in OTHERS:
        (tmp_path / name).mkdir() if name == "incomplete-data" else (tmp_path / name).write_text("mine")
    store.open_workspace(tmp_path)
    checkpoint = write_checkpoint(tmp_path)
    write_checkpoint(tmp_path)
    write_checkpoint(tmp_path, "checkpoint-2")
    store.remove(tmp_path / "checkpoint-2")
    store.clear_leftovers(tmp_path)
    store.close_workspace(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == OTHERS | {"checkpoint-1"}
    assert store.read_record(checkpoint).job == "some"


def test_a_file_system_without_modes_ends_no_training(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "chmod", refuse)
    assert store.read_record(write_checkpoint(tmp_path)).job == "some"


CLAIMS = """
import sys, time
from mindnlp_dp_plugin.checkpoint import store
store.open_workspace(sys.argv[1])
store.scratch_folder(sys.argv[1]).mkdir()
time.sleep(600)
"""


def test_a_second_job_in_the_same_folder_is_told_of_the_first(tmp_path):
    scratch = store.scratch_folder(tmp_path)
    other = start([sys.executable, "-c", CLAIMS, tmp_path], {**os.environ, "MINDNLP_DP_DEFERRED": "1"})
    try:
        while not scratch.exists():
            assert other.poll() is None
            time.sleep(0.02)
        with pytest.raises(DataParallelError, match=f"process {other.pid} of this machine, running since .*output_dir"):
            store.open_workspace(tmp_path)
        store.clear_leftovers(tmp_path)
        store.close_workspace(tmp_path)
        assert scratch.exists()
    finally:
        kill_tree(other.pid)
        other.communicate()
    assert store.open_workspace(tmp_path) is None, "the other one is dead"
    assert not scratch.exists()


def test_a_dead_job_claims_nothing_even_if_nobody_has_asked_how_it_ended(tmp_path):
    claim = "import sys; from mindnlp_dp_plugin.checkpoint import store; store.open_workspace(sys.argv[1])"
    dead = start([sys.executable, "-c", claim, tmp_path], {**os.environ, "MINDNLP_DP_DEFERRED": "1"})
    os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)
    assert psutil.Process(dead.pid).status() == psutil.STATUS_ZOMBIE and list(tmp_path.iterdir())
    store.clear_leftovers(tmp_path)
    assert not list(tmp_path.iterdir())
    dead.communicate()


def test_a_folder_claimed_on_another_node_is_taken_over_and_said(tmp_path):
    store.workspace(tmp_path).mkdir()
    claim = {"node": "elsewhere", "pid": 1, "since": 0.0}
    (store.workspace(tmp_path) / "owner.json").write_text(json.dumps(claim))
    assert store.open_workspace(tmp_path) == "process 1 on elsewhere"


@pytest.mark.parametrize(
    "damage, problem",
    [
        (
            lambda folder: (folder / "model.safetensors").write_text("weighty"),
            "model.safetensors does not have the contents",
        ),
        (lambda folder: (folder / store.RECORD).write_text('{"format": 2}'), "data_parallel.json lists no files"),
        (lambda folder: (folder / store.RECORD).write_text("[" * 10**5), "data_parallel.json is not JSON"),
        (lambda folder: (folder / store.RECORD).write_bytes(b"\xff"), "data_parallel.json is not JSON"),
    ],
)
def test_damaged_checkpoints_are_named_and_skipped(tmp_path, damage, problem):
    whole, damaged = write_checkpoint(tmp_path), write_checkpoint(tmp_path, "checkpoint-2")
    damage(damaged)
    assert store.problem_of(damaged).startswith(problem)
    assert [*store.whole_in(tmp_path)] == [whole]
    assert re.match(f".*{problem}.*newest whole checkpoint is .*checkpoint-1", str(store.refusal(damaged, problem)))


def test_of_another_loops_checkpoints_the_newest_whole_one_is_offered_too(tmp_path):
    for name in ("checkpoint-1", "checkpoint-2"):
        with store.atomic_save(tmp_path) as scratch:
            written = scratch / name
            written.mkdir()
            (written / store.STATE).write_text("{}")
            store.publish(written, tmp_path, {"micro_steps": 3})
    assert store.read_whole(tmp_path / "checkpoint-2")["micro_steps"] == 3
    (tmp_path / "checkpoint-2" / store.STATE).write_text("[]")
    with pytest.raises(DataParallelError, match="trainer_state.json .* newest whole checkpoint is .*checkpoint-1'"):
        store.read_whole(tmp_path / "checkpoint-2")


def test_a_checkpoint_of_an_earlier_version_has_no_digests_and_is_read(tmp_path):
    checkpoint = write_checkpoint(tmp_path)
    content = json.loads((checkpoint / store.RECORD).read_text())
    del content["digests"]
    (checkpoint / store.RECORD).write_text(json.dumps(content))
    assert store.problem_of(checkpoint) is None
    assert store.read_record(checkpoint).job == "some"


def pickled(tmp_path, value):
    path = tmp_path / "optimizer.ckpt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(value, protocol=2))
    return path


class WildDtype:
    """A dtype of numbers whose layout the pickle changes."""

    def __reduce__(self):
        return np.dtype, ("f4", False, True), (3, "<", (np.dtype("O"), (1,)), None, None, -1, -1, 0)


@pytest.mark.parametrize(
    "value",
    [
        np.array([OSError("any object")], dtype=object),
        np.zeros(2, dtype=[("a", "f4")]),
        np.dtype("V8"),
        np.array(["text"]),
        WildDtype(),
        os.getpid,
    ],
)
def test_pickles_of_anything_but_numbers_are_refused(tmp_path, value):
    with pytest.raises(DataParallelError, match="could run any code"):
        safe_unpickler.load(pickled(tmp_path, value))


def test_numbers_are_read_as_they_were(tmp_path):
    value = {
        "matrix": np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        "swapped": np.arange(3, dtype=">i8"),
        "tensor": mindspore.Tensor(np.arange(4, dtype=np.float16)),
        "number": np.float64(0.1),
        "list": [1, 2.5, None, "text"],
    }
    found = safe_unpickler.load(pickled(tmp_path, value))
    for name in ("matrix", "swapped"):
        np.testing.assert_array_equal(found[name], value[name])
    assert found["matrix"].dtype == np.float32
    assert type(found["tensor"]) is mindspore.Tensor and found["tensor"].dtype == mindspore.float16
    assert found["tensor"].asnumpy().tolist() == [0, 1, 2, 3]
    assert found["number"] == value["number"] and found["list"] == value["list"]
