"""Shared-out optimizer states: checkpoints are those of plain data parallelism, and whatever follows ends alike."""

import json
import zipfile
from itertools import product

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.distributed.jobs import jobs, left_by_all

DIFFERING = {"data_parallel.json"}  # which has digests of the archives
BY_PLACE = (3, "mccl")  # sums in an order that hangs on the place in a message, which stage 3 lays out for itself


@pytest.fixture(scope="module", params=jobs((2, "mpi")), ids=str)
def output(request, in_turn):
    return in_turn("sharded_states.py", *request.param)


@pytest.fixture
def num_exact(request):
    """How many stages have the bits of the first, from that on."""
    return 3 if request.node.callspec.params["output"] == BY_PLACE else 4


@pytest.fixture
def outcomes(output):
    """Of rank 0; every rank has the same."""
    return left_by_all(output)


@pytest.mark.parametrize(
    "name", ["saved", "trained_twice", "trained_once_more_with_whole_states", "given_new_parameters"]
)
def test_each_stage_ends_alike(outcomes, num_exact, name):
    plain, *staged = outcomes[name][:num_exact]
    assert plain and len(set(plain)) > 10
    assert staged == [plain] * len(staged)


def test_resumed_with_any_stage_from_any_stage_it_ends_as_if_never_stopped(outcomes, num_exact):
    for stages, ended in outcomes["resumed"].items():
        assert "3" in stages and num_exact == 3 or ended == outcomes["saved"][0], stages


def contents(path):
    """A file's bytes; of an archive, which notes the time, those of what is in it."""
    if not zipfile.is_zipfile(path):
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("step", [2, 4, 6])
def test_checkpoints_have_the_bytes_of_plain_data_parallelism_s(output, num_exact, step):
    plain, *staged = (folder / f"checkpoint-{step}" for folder in sorted(output.glob("stage?")))
    others, weights = staged[num_exact - 1 :], load_file(plain / "model.safetensors")
    for folder, (name, expected) in product(others, weights.items()):
        found = load_file(folder / "model.safetensors")[name]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4, err_msg=name)
    staged = staged[: num_exact - 1]
    names = sorted(path.name for path in plain.iterdir())
    assert {"optimizer.ckpt", "scheduler.json", "model.safetensors"} < set(names)
    for folder in staged:
        assert sorted(path.name for path in folder.iterdir()) == names
        for name in set(names) - DIFFERING:
            assert contents(folder / name) == contents(plain / name), name


def test_what_a_stage_cannot_do_is_refused(outcomes):
    lamb, own_step, clips_again = outcomes["refusals"]
    assert lamb[0].startswith("zero_stage cannot shard the states of Lamb: ") and lamb[1] == 0
    assert own_step[0].startswith("zero_stage=2 with an overridden training_step") and own_step[1] == 0
    assert clips_again[0].startswith("zero_stage=2 or 3, clip_grad_norm_(") and clips_again[1] == 1


@pytest.mark.slow
def test_another_number_of_ranks_resumes(output_of, in_turn):
    of_two = in_turn("sharded_states.py", 2, "mpi")
    of_three = output_of("sharded_states.py", str(of_two), ranks=3, backend="mpi")
    plain, *staged = json.loads((of_three / "rank0.json").read_text())["resumed_on_more_ranks"]
    assert staged == [plain] * len(staged)


@pytest.mark.parametrize("stage", [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow), 3])
def test_saving_takes_no_more_memory_than_training_and_a_bucket(output_of, stage):
    output = output_of("saving_peak.py", str(stage), ranks=2, backend="mpi")
    for rank in range(2):
        peaks = json.loads((output / f"rank{rank}.json").read_text())
        limit = peaks["before"] + peaks["largest_bucket"]
        assert 0 < peaks["before"] <= peaks["after"] <= limit
        assert stage < 3 or peaks["end"] <= limit  # the best loaded, evaluated, predicted, saved and resumed
