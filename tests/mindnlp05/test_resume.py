"""A checkpoint is whole or absent, and going on from it is exact, with dropout."""

import zipfile

import pytest

from mindnlp_dp_plugin.checkpoint import store

STOPS = (2, 4)  # in the middle of the first and the second epoch


def begun_on(ranks_of, ranks):
    """Where trainings ran whole or stopped; of ranks, the last was torn."""
    ways = ["whole", *(f"first:{stop}" for stop in STOPS), *(["torn"] if ranks > 1 else [])]
    return ranks_of("resuming.py", "nowhere", *ways, ranks=ranks, fails=ranks > 1)


@pytest.fixture(scope="module")
def at_once(ranks_of):
    return begun_on(ranks_of, 2)


@pytest.fixture(scope="module")
def later(ranks_of):
    """Where checkpoints were written while training went on."""
    return ranks_of("resuming.py", "nowhere", "whole", "torn", ranks=2, fails=True, saves_later=True)


def ends(folder, way, ranks=2):
    return [(folder / f"{way}.rank{rank}").read_text() for rank in range(ranks)]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("stop", STOPS)
def test_going_on_is_exact_to_the_last_bit(ranks_of, ranks, stop):
    begun = begun_on(ranks_of, ranks)
    gone_on = ranks_of("resuming.py", begun, *(f"second:{stop}" for stop in STOPS), ranks=ranks)
    whole = ends(begun, "whole", ranks)
    assert ends(gone_on, f"second:{stop}", ranks) == whole and len(set(whole)) == 1
    assert ends(begun, f"first:{stop}", ranks)[0] != whole[0]


def test_ranks_do_not_go_on_from_a_checkpoint_of_one_process(ranks_of):
    refused = ranks_of("resuming.py", begun_on(ranks_of, 1), f"second:{STOPS[0]}", ranks=2, fails=True)
    (log,) = (refused / "logs").rglob("rank_1.log")
    assert "with other settings: world_size was 1 and is 2. Other rows would be left" in log.read_text()


def test_only_the_newest_are_kept(at_once):
    assert sorted(path.name for path in (at_once / "whole").iterdir()) == ["checkpoint-4", "checkpoint-6"]
    states = {"data_parallel.json", "rng_state_0.pth", "rng_state_1.pth"}
    assert states <= {path.name for path in (at_once / "whole/checkpoint-6").iterdir()}


def test_what_is_written_while_training_goes_on_is_what_training_waits_for(at_once, later):
    assert ends(later, "whole") == ends(at_once, "whole")
    assert sorted(path.name for path in (later / "whole").iterdir()) == ["checkpoint-4", "checkpoint-6"]
    for name in ("checkpoint-4", "checkpoint-6"):
        assert store.problem_of_files(later / "whole" / name) is None
        assert contents(later / "whole" / name) == contents(at_once / "whole" / name)


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


@pytest.mark.parametrize("saved", ["at_once", "later"])
def test_a_checkpoint_is_whole_or_absent(saved, request):
    torn = request.getfixturevalue(saved) / "torn"
    assert [path.name for path in torn.glob("checkpoint-*")] == ["checkpoint-2"]
