"""One folder belongs to one training: what goes on from which checkpoint, and what is refused."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.record import Origin
from mindnlp_dp_plugin.checkpoint.training import begin_training, own_checkpoint
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.variables import JOB, RESTART

JOB_NAME = "this job"


def write(output_dir, step, **says):
    with store.atomic_save(output_dir) as scratch:
        written = scratch / f"checkpoint-{step}"
        written.mkdir()
        (written / store.STATE).write_text("{}")
        store.publish(written, output_dir, {"job": JOB_NAME, "train_call": 1, "training": "a", **says})
    return output_dir / f"checkpoint-{step}"


def begin(output_dir):
    return begin_training(str(output_dir), collectives.current())


def goes_on(output_dir, wanted=None, is_resuming=True):
    found = own_checkpoint(begin(output_dir), wanted, is_resuming, collectives.current())
    return found and int(found.rpartition("-")[2])


@pytest.fixture
def restart(monkeypatch):
    monkeypatch.setenv(JOB, JOB_NAME)
    monkeypatch.setenv(RESTART, "1")


def test_the_newest_whole_one(tmp_path):
    write(tmp_path, 2), write(tmp_path, 4)
    (write(tmp_path, 6) / store.STATE).write_text("{ }")
    assert goes_on(tmp_path) == 4


def test_nothing_to_go_on_from(tmp_path):
    assert goes_on(tmp_path) is None
    write(tmp_path, 2)
    assert own_checkpoint(begin(tmp_path), None, False, collectives.current()) is None, "nobody asked"


def test_a_restart_leaves_alone_what_an_older_job_left(tmp_path, restart):
    write(tmp_path, 2, job="older", training="b")
    write(tmp_path, 1)
    assert goes_on(tmp_path, is_resuming=False) == 1


def test_a_later_run_owns_the_folder(tmp_path):
    """It began from the start; the older one's checkpoints may be of later steps."""
    begun, now = tmp_path / "begun", tmp_path / "now"
    write(begun, 8, training="old", has_ended=True)
    begin(begun).take_over()
    write(begun, 2, training="new")
    assert store.read_published(begun / "checkpoint-8")["followed_by"] == 1
    begun.rename(now)  # this process has begun none there
    assert goes_on(now) == 2


@pytest.mark.parametrize(
    "others",
    [
        {"training": "b", "train_call": 2},  # a second stage has saved
        {"followed_by": 2},  # a second stage was begun, and has saved nothing
        {"training": "b"},  # of two runs of which neither took the other's place
        {"training": None, "train_call": 2},  # an earlier version's
    ],
)
@pytest.mark.parametrize("wanted", [None, True])
def test_several_trainings_are_refused(tmp_path, others, wanted):
    write(tmp_path, 2)
    write(tmp_path, 4, **others)
    with pytest.raises(DataParallelError, match="holds checkpoints of several trainings"):
        goes_on(tmp_path, wanted)


def test_a_checkpoint_that_the_script_names_is_taken(tmp_path):
    write(tmp_path, 2), write(tmp_path, 4, training="b", train_call=2)
    assert goes_on(tmp_path, str(tmp_path / "checkpoint-2")) is None


def test_a_second_training_of_this_process(tmp_path):
    first = begin(tmp_path)
    write(tmp_path, 2, training=first.id)
    assert goes_on(tmp_path) is None, "what the first has written is not the second's"
    write(tmp_path, 4, training="b", train_call=2)
    with pytest.raises(DataParallelError, match="holds checkpoints of several trainings"):
        goes_on(tmp_path)


def test_who_goes_on_is_the_training_that_wrote_it(tmp_path):
    write(tmp_path, 2, followed_by=1)
    write(tmp_path, 4, training="b")
    training = begin(tmp_path)
    training.adopt(Origin.of(store.read_published(tmp_path / "checkpoint-2")))
    training.take_over()
    marks = [store.read_published(tmp_path / f"checkpoint-{step}")["followed_by"] for step in (2, 4)]
    assert training.id == "a" and marks == [None, 1]
    training.end()
    assert store.read_published(tmp_path / "checkpoint-2")["has_ended"]


def test_a_checkpoint_of_the_first_versions_is_gone_on_from_again_and_again(tmp_path):
    begun, now = tmp_path / "begun", tmp_path / "now"
    write(begun, 2, training=None, train_call=1)
    training = begin(begun)
    assert own_checkpoint(training, None, True, collectives.current()) == str(begun / "checkpoint-2")
    training.adopt(Origin.of(store.read_published(begun / "checkpoint-2")))
    training.take_over()
    begun.rename(now)  # killed before it saved, and started again
    assert goes_on(now) == 2
    write(now, 4, training=training.id)
    now.rename(begun.with_name("later"))
    assert goes_on(begun.with_name("later")) == 4


@pytest.fixture
def for_all():
    """A folder that other users may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def test_a_checkpoint_of_another_user_is_named(for_all):
    checkpoint = write(for_all, 2, training="another")
    checkpoint.chmod(0o555)
    reading, writing = os.pipe()
    if not (child := os.fork()):
        if os.getuid() == 0:
            os.setuid(65534)
        try:
            begin(for_all).take_over()
        except DataParallelError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    said = os.read(reading, 4096).decode()
    os.close(reading)
    assert said.startswith(f"{checkpoint}: cannot be written") and "output_dir of its own" in said
