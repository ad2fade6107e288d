"""Checkpoints that are written while training goes on are those that training waits for."""

import json
import zipfile

import pytest

from mindnlp_dp_plugin.checkpoint import store


@pytest.fixture(scope="module", params=["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def saved(request, in_turn):
    return in_turn("async_save.py", 2, request.param)


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
