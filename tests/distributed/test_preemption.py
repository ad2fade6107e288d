"""A job that is told to end writes a checkpoint first, and goes on from there when the same command is given again."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.harness import run_ranks

# In the midst of an epoch, before a step after which it is evaluated; near the end of a training; in the second one.
ORDERS = ("1:1:1:SIGTERM:rank", "1:4:0:SIGUSR1:launcher", "2:7:1:SIGUSR2:rank")
STATUS = {"SIGTERM": 143, "SIGUSR1": 138, "SIGUSR2": 140}


def run(output, *undisturbed, backend="mpi", ranks=2, orders=()):
    output.mkdir(exist_ok=True)
    return run_ranks(
        "preempted.py", output, *undisturbed, ranks=ranks, backend=backend, log_dir=output / "logs",
        env={"SIGNALS": " ".join(orders)}, options=("--resume", "--max-restarts", "1"),
    )  # fmt: skip


def require_preempted(finished, output, order):
    """The checkpoint that it has left."""
    call, step, _, name, whom = order.split(":")
    assert finished.returncode == STATUS[name], f"{finished.stdout}\n{finished.stderr}"
    said = re.search(r"^mindnlp-dp: stopped by (\w+) after step (\d+), which (.*) holds[.;] ", finished.stderr, re.M)
    assert said[1] == name and Path(said[3]) == output / f"trainer{call}" / f"checkpoint-{said[2]}"
    # Asked before each step: a rank that comes late may get the launcher's signal in time for the step before.
    assert int(said[2]) in ([int(step) + 2] if whom == "rank" else range(int(step), int(step) + 3))
    result = json.loads((output / "logs" / "result.json").read_text())
    assert (result["status"], result["restarts"], result["last_checkpoint"]) == ("stopped", 0, said[3])
    assert f"the newest whole checkpoint is {said[3]}: --resume goes on from it" in finished.stderr
    return Path(said[3])


def ends_of(output, ranks=2):
    return [json.loads((output / f"end.rank{rank}.json").read_text()) for rank in range(ranks)]


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The folder of a job that was told to end, and what trainings end with that it did before, in peace."""
    output = tmp_path_factory.mktemp("begun") / "output"
    require_preempted(run(output, output / "never", orders=ORDERS), output, ORDERS[0])
    assert "--resume: training continues from the start" in (output / "logs" / "rank_0.log").read_text()
    return output, ends_of(output / "never")


def test_preempted_again_and_again_it_ends_as_if_it_never_was(begun):
    output, never = begun
    of_first, of_second = (require_preempted(run(output, orders=ORDERS), output, order) for order in ORDERS[1:])
    with (of_second / "model.safetensors").open("r+b") as file:
        file.truncate(1000)
    finished = run(output)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    log = (output / "logs" / "rank_0.log").read_text()
    assert f"--resume: passed over {of_second}: model.safetensors has 1000 bytes" in log
    assert f"--resume: training continues from {of_first}\n" in log
    assert log.count("--resume: training continues from the start\n") == 1
    assert ends_of(output) == never


@pytest.mark.slow
def test_over_mccl_too(tmp_path, begun):
    output = tmp_path / "output"
    orders = ORDERS[1:2]
    require_preempted(run(output, backend="mccl", orders=orders), output, *orders)
    finished = run(output, backend="mccl")
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert ends_of(output) == begun[1]


@pytest.mark.slow
def test_in_one_process_too(tmp_path):
    output = tmp_path / "output"
    assert run(output, ranks=1).returncode == 0
    (expected,) = ends_of(output, ranks=1)
    shutil.rmtree(output)
    require_preempted(run(output, ranks=1, orders=ORDERS[1:2]), output, ORDERS[1])
    assert run(output, ranks=1).returncode == 0
    assert ends_of(output, ranks=1) == [expected]
