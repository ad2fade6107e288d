"""A job that loses a node goes on with the others, and ends as if nothing had happened."""

import os
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.variables import WORLD_SIZES
from mindnlp_dp_plugin.trainers.mindnlp.fewer_nodes import planned_accumulation, same_global_batch
from tests.harness import PROGRAMS, REPOSITORY, finish, run_ranks_successfully, start
from tests.ports import free_port

ROUNDING = 2e-6  # of parameters, after 6 further steps


@pytest.mark.slow
@pytest.mark.parametrize("elastic, bound", [({}, ROUNDING), ({"MINDNLP_DP_ELASTIC_DETERMINISM": "1"}, 0)])
def test_two_of_three_nodes_go_on_with_the_same_global_batch(tmp_path, elastic, bound):
    never, again = tmp_path / "never", tmp_path / "again"
    never.mkdir()
    run_ranks_successfully("fewer_nodes.py", never, ranks=3, backend="mccl", log_dir=never / "logs", env=elastic)
    again.mkdir()
    waits = {"MINDNLP_DP_SNAPSHOT_EVERY": "1", "WAITS_AT": "3", **elastic}
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY), **waits}
    meeting = ("--nnodes", "2:3", "--master-addr", "127.0.0.1", "--master-port", free_port(), "--backend", "mccl")
    launchers = []
    for node in range(3):
        command = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", 1, *meeting, "--node-rank", node]
        script = [PROGRAMS / "fewer_nodes.py", again]
        launchers.append(start([*command, "--log-dir", again / f"logs_{node}", *script], env, again))
    deadline = time.monotonic() + 120
    while not all(steps_of(again, rank) == 3 for rank in range(3)) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(3)  # for the snapshot to be whole
    launchers[2].kill()
    finished = [finish(launcher, 180) for launcher in launchers]
    assert [each.returncode for each in finished] == [0, 0, -9], finished
    assert "the newest snapshot is now" in finished[0].stderr
    with np.load(again / "end.npz") as ours, np.load(never / "end.npz") as theirs:
        for key in theirs.files:
            np.testing.assert_allclose(ours[key], theirs[key], rtol=0, atol=bound)


def steps_of(output, rank):
    counted = output / f"steps.rank{rank}"
    return int(counted.read_text() or 0) if counted.exists() else 0


@pytest.mark.parametrize("world_size, accumulation", [(2, 9), (3, 6), (1, 18)])
def test_fewer_ranks_accumulate_more(monkeypatch, world_size, accumulation):
    monkeypatch.setenv(WORLD_SIZES, "1,2,3")
    arguments = SimpleNamespace(gradient_accumulation_steps=6)
    with same_global_batch(arguments, world_size):
        assert arguments.gradient_accumulation_steps == accumulation
        assert planned_accumulation(accumulation, world_size) == 6
    assert arguments.gradient_accumulation_steps == 6


def test_what_cannot_be_divided_is_refused_with_what_can(monkeypatch):
    monkeypatch.setenv(WORLD_SIZES, "4,6,8")
    arguments = SimpleNamespace(gradient_accumulation_steps=2)
    with (
        pytest.raises(DataParallelError, match="=2: the 16 batches of a step on 8 ranks .* among 6, .* multiple of 3,"),
        same_global_batch(arguments, 8),
    ):
        pass
    arguments.gradient_accumulation_steps = 3
    with same_global_batch(arguments, 6):
        assert arguments.gradient_accumulation_steps == 4
