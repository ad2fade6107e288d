"""A checkpoint is whole or absent, and going on from it is exact, with dropout."""

import json
import zipfile

import pytest

from mindnlp_dp_plugin.checkpoint import store


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("stop", [2, 4])  # in the middle of the first and the second epoch
def test_going_on_is_exact_to_the_last_bit(notes_of, ranks_of, ranks, stop):
    whole = notes_of("resuming.py", "whole", ranks=ranks)
    first = ranks_of("resuming.py", "first", stop, ranks=ranks)
    second = notes_of("resuming.py", "second", str(first), ranks=ranks)
    assert second == whole and len(set(whole)) == 1
    assert json.loads((first / "rank0.json").read_text()) != whole[0]


def test_only_the_newest_are_kept(ranks_of):
    folder = ranks_of("resuming.py", "whole", ranks=2) / "training"
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint-4", "checkpoint-6"]
    assert {"data_parallel.json", "rng_state_0.pth", "rng_state_1.pth"} <= {
        path.name for path in (folder / "checkpoint-6").iterdir()
    }


def test_what_is_written_while_training_goes_on_is_what_training_waits_for(notes_of, ranks_of):
    assert notes_of("resuming.py", "whole", ranks=2, saves_later=True) == notes_of("resuming.py", "whole", ranks=2)
    later, at_once = (ranks_of("resuming.py", "whole", ranks=2, saves_later=way) / "training" for way in (True, False))
    assert sorted(path.name for path in later.iterdir()) == ["checkpoint-4", "checkpoint-6"]
    for name in ("checkpoint-4", "checkpoint-6"):
        assert store.problem_of_files(later / name) is None
        assert contents(later / name) == contents(at_once / name)


def contents(folder):
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    for name in (store.RECORD, store.STATE, "training_args.bin"):  # they name the folder
        del files[name]
    archives = [name for name in files if zipfile.is_zipfile(folder / name)]
    assert "optimizer.pt" in archives and "model.safetensors" in files
    for name in archives:  # an archive records when it was written
        archive = zipfile.ZipFile(folder / name)
        files[name] = {record: archive.read(record) for record in archive.namelist()}
    return files


@pytest.mark.parametrize("saves_later", [False, True])
def test_a_checkpoint_is_whole_or_absent(ranks_of, saves_later):
    folder = ranks_of("resuming.py", "torn", ranks=2, fails=True, saves_later=saves_later) / "training"
    assert [path.name for path in folder.glob("checkpoint-*")] == ["checkpoint-2"]
