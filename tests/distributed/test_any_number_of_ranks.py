"""With ``elastic_determinism`` 1, 2, 3, 4 and 6 ranks train the same model, to the last bit, whatever is trained."""

import json
import sys

import pytest

from tests.harness import PROGRAMS, run, run_ranks_successfully
from tests.programs.any_number_of_ranks import CASES

QUICK = ("adamw", "zero2", "labels", "fp16", "unused", "packed", "dispatched", "by_batch")
GOING_ON = ("adamw", "logged")
STOPPED_AFTER, ALL_STEPS = 1, 6  # 3 in an epoch


def train(folder, micro_batches, backend, ranks, names):
    """What so many ranks leave of each case."""
    folder.mkdir(exist_ok=True)
    words = ("any_number_of_ranks.py", folder, micro_batches, *names)
    if ranks == 1:
        env = {"PYTHONHASHSEED": "0"}  # as the launcher sets it: adapter_config.json lists a set
        finished = run([sys.executable, PROGRAMS / words[0], *words[1:]], cwd=folder, env=env)
        assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    else:
        run_ranks_successfully(*words, ranks=ranks, backend=backend, log_dir=folder / f"logs{ranks}")
    return {name: json.loads((folder / f"{name.replace(':', '.')}.{ranks}.json").read_text()) for name in names}


def assert_equal(ours, theirs):
    for name, expected in theirs.items():
        assert expected["digests"], name
        differing = [what for what in expected if ours[name][what] != expected[what]]
        assert not differing, (name, {what: (ours[name][what], expected[what]) for what in differing})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("any_number")


@pytest.fixture(scope="module")
def of_four(folder):
    """What four ranks have trained; and one that they have begun, and stopped."""
    return train(folder, 4, "mpi", 4, (*QUICK, "logged", *(f"{name}:STOP" for name in GOING_ON)))


@pytest.fixture(scope="module", params=[1, 2])
def of_fewer(of_four, folder, request):
    """The same on fewer ranks; and what those have gone on with."""
    return train(folder, 4, "mpi", request.param, (*QUICK, *(f"{name}:RESUME" for name in GOING_ON)))


def test_fewer_ranks_train_what_four_do(of_four, of_fewer):
    """Parameters after each step, losses, metrics, and every file of every checkpoint."""
    assert_equal(of_fewer, {name: of_four[name] for name in QUICK})


@pytest.mark.parametrize("name", GOING_ON)
def test_what_four_ranks_began_fewer_end_as_if_never_stopped(of_four, of_fewer, name):
    whole, stopped, gone_on = of_four[name], of_four[f"{name}:STOP"], of_fewer[f"{name}:RESUME"]
    assert len(stopped["digests"]) == STOPPED_AFTER
    assert stopped["digests"] + gone_on["digests"] == whole["digests"]
    for what in ("log", "training_loss", "scores", "tokens", "flos"):
        assert gone_on[what] == whole[what], what
    last = {name: digest for name, digest in whole["files"].items() if name.startswith(f"checkpoint-{ALL_STEPS}/")}
    assert last and last.items() <= gone_on["files"].items()


def test_every_step_changes_the_model(of_four):
    for name in QUICK:
        digests = of_four[name]["digests"]
        assert len(set(digests)) == len(digests) == ALL_STEPS, name
        assert len(of_four[name]["files"]) >= 4 * ALL_STEPS / 2, "four in each checkpoint"


@pytest.mark.slow
@pytest.mark.parametrize(
    "micro_batches, backend, numbers, names",
    [
        (4, "mpi", (1, 2, 4), tuple(CASES)),
        (4, "mccl", (1, 2, 4), tuple(CASES)),
        (6, "mpi", (1, 2, 3, 6), QUICK),
        (6, "mccl", (2, 3), QUICK),
    ],
)
def test_whatever_is_trained(tmp_path, micro_batches, backend, numbers, names):
    first, *others = (train(tmp_path, micro_batches, backend, ranks, names) for ranks in numbers)
    for left in others:
        assert_equal(left, first)


@pytest.mark.slow
def test_engines_have_the_same_bits(tmp_path):
    over = [train(tmp_path / backend, 4, backend, 2, ("adamw", "labels")) for backend in ("mpi", "mccl")]
    assert_equal(*over)
