"""A checkpoint is whole or absent, and going on from it is exact, with dropout."""

import json

import pytest


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


def test_a_checkpoint_is_whole_or_absent(ranks_of):
    folder = ranks_of("resuming.py", "torn", ranks=2, fails=True) / "training"
    assert [path.name for path in folder.glob("checkpoint-*")] == ["checkpoint-2"]
