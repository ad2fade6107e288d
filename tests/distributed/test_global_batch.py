"""A training that goes on by itself on other numbers of ranks has the same global batch, and the same end."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.record import Settings
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.trainers.mindnlp import global_batch
from tests.harness import PROGRAMS, run, run_ranks, run_ranks_successfully

ROUNDING = 1e-6  # of parameters, after up to 5 further steps
ELASTIC = {"MINDNLP_DP_ELASTIC_DETERMINISM": "1"}


@pytest.mark.parametrize(
    "ranks, left, elastic, bound",
    [
        (2, 1, {}, ROUNDING),
        pytest.param(3, 2, {}, ROUNDING, marks=pytest.mark.slow),
        pytest.param(3, 2, {"MINDNLP_DP_ELASTIC_DETERMINISM": "6"}, 0, marks=pytest.mark.slow),
    ],
)
def test_fewer_ranks_go_on_after_a_kill_with_the_same_global_batch(tmp_path, in_turn, ranks, left, elastic, bound):
    never, again = tmp_path / "never", tmp_path / "again"
    never.mkdir()
    again.mkdir()
    where = dict(ranks=ranks, backend="mpi")
    if ranks == 2:
        never = in_turn("killed_once.py", **where)
    else:
        run_ranks_successfully("killed_once.py", never, log_dir=never / "logs", env=elastic, **where)
    env = {**elastic, "STRIKES": "3 1", "MINDNLP_DP_RESUME": "1"}
    killed = run_ranks("killed_once.py", again, log_dir=again / "logs", env=env, **where)
    assert killed.returncode == 137, killed.stderr
    if left == 1:
        ended = run([sys.executable, PROGRAMS / "killed_once.py", again], env={"MINDNLP_DP_RESUME": "1"})
        assert ended.returncode == 0, ended.stderr
    else:
        run_ranks_successfully("killed_once.py", again, ranks=left, backend="mpi", log_dir=again / "logs", env=env)
    starts = [line.split()[:2] for line in (again / "starts.rank0").read_text().splitlines()]
    assert starts == [["0", str(ranks)], ["3", str(left)]]
    with np.load(again / "end.npz") as ours, np.load(never / "end.npz") as theirs:
        for key in theirs.files:
            np.testing.assert_allclose(ours[key], theirs[key], rtol=0, atol=bound)


@pytest.fixture
def trainer(monkeypatch):
    """Of a script that asks for batches of 4 rows and an accumulation of 2, which 3 ranks began and 2 went on with."""
    settings = Settings(2, 4, 3, 42, 96, False)
    record = SimpleNamespace(settings=settings, nominal_accumulation=2)
    monkeypatch.setattr(store, "read_record", lambda checkpoint: record)
    return SimpleNamespace(
        args=SimpleNamespace(gradient_accumulation_steps=2),
        get_train_dataset=lambda: SimpleNamespace(get_batch_size=lambda: 4),
    )


@pytest.mark.parametrize("world_size, accumulation", [(1, 6), (3, 2), (6, 1)])
def test_other_ranks_accumulate_more_or_less(trainer, world_size, accumulation):
    with global_batch.same_as_before(trainer, world_size, "checkpoint-3"):
        assert trainer.args.gradient_accumulation_steps == accumulation
    assert trainer.args.gradient_accumulation_steps == 2


def test_what_cannot_be_divided_is_refused_with_what_can(trainer):
    with (
        pytest.raises(DataParallelError, match="-3: the 6 batches of a step .* 4 ranks.*: 1, 2, 3, 6"),
        global_batch.same_as_before(trainer, 4, "checkpoint-3"),
    ):
        pass


def test_another_global_batch_that_the_script_asks_for_is_taken(trainer):
    trainer.args.gradient_accumulation_steps = 4
    with global_batch.same_as_before(trainer, 1, "checkpoint-3"):
        assert trainer.args.gradient_accumulation_steps == 4
