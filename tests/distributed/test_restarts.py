"""Jobs that are started again after a rank has died end as one that was left alone: to the last bit."""

import json
import random
import re
import shutil
import stat

import pytest

from mindnlp_dp_plugin.checkpoint import store
from tests.harness import run_ranks

# See tests/programs/faults.py; a save takes about 10 ms. With it, the checkpoints that each start may go on from: of
# those that are written while training goes on, the last may not be whole when a rank dies.
STRUCK = {
    "at_once": ("backward:1:0:SIGKILL:0.01 save:7:0:SIGSEGV:0.004", [(1,), (6, 7, 8)]),
    "later": ("backward:4:1:SIGKILL:0.01 backward:9:0:exception:0.01", [(2, 3, 4), (7, 8, 9)]),
}


def run(output, faults, max_restarts, backend="mpi", saved="at_once"):
    (output / "tmp").mkdir(parents=True)
    env = {"FAULTS": faults, "FAULT_FOLDER": str(output), "TMPDIR": str(output / "tmp")}
    env["MINDNLP_DP_ASYNC_SAVE"] = str(int(saved == "later"))
    options = ("--max-restarts", max_restarts)
    job = dict(ranks=2, backend=backend, log_dir=output / "logs", env=env, options=options)
    finished = run_ranks("struck.py", output, 12, **job)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return finished.stderr


def ends_of(output):
    return [json.loads((output / f"end.rank{rank}.json").read_text()) for rank in (0, 1)]


@pytest.fixture
def never(in_turn):
    """The folder of a training that nothing has struck."""
    return in_turn("struck.py", 2, "mpi")


@pytest.mark.parametrize(
    "saved, backend", [("at_once", "mpi"), ("later", "mpi"), pytest.param("later", "mccl", marks=pytest.mark.slow)]
)
def test_restarted_by_the_launcher_it_goes_on_from_its_own_newest_checkpoint(never, tmp_path, saved, backend):
    again, (faults, may_go_on_from) = tmp_path / "again", STRUCK[saved]
    if saved == "at_once":  # else a start may find nothing but this, and the program's model depends on what it finds
        shutil.copytree(never / "trainer/checkpoint-12", again / "trainer/checkpoint-5")
    stderr = run(again, faults, max_restarts=2, backend=backend, saved=saved)
    for _, _, _, way, _ in (fault.split(":") for fault in faults.split()):
        assert way == "exception" or f"killed by {way}" in stderr
    assert stderr.count("restart 1 of 2 since step ") == 2, "the budget has come back"
    for start, steps in enumerate(may_go_on_from, start=1):
        log = (again / f"logs/restart_{start}/rank_0.log").read_text()
        goes_on = re.search(f"Restart {start}: training continues from {again}/trainer/checkpoint-([0-9]+)\n", log)
        assert int(goes_on[1]) in steps
    assert not list((again / "tmp").glob("tmp*")), "what a killed rank had in TMPDIR"

    expected = ends_of(never)
    assert ends_of(again) == expected
    assert expected[0]["last"] != expected[0]["best"]
    left = {folder.name: folder for folder in (again / "trainer").iterdir()}
    assert sorted(left) == sorted([expected[0]["best_checkpoint"], "checkpoint-12"])
    for folder in left.values():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert store.problem_of(folder) is None and store.read_record(folder).train_call == 1


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_as_if_never_killed(never, tmp_path):
    seed = random.randrange(2**32)
    chance, longest, faults = random.Random(seed), {"backward": 0.04, "save": 0.012, "evaluation": 0.02}, []
    for step in range(1, 11):
        moment = chance.choice(list(longest))
        delay = chance.uniform(0, longest[moment])  # about as long as each takes
        faults.append(f"{moment}:{step}:{chance.randrange(2)}:SIGKILL:{delay:.4f}")
    run(tmp_path / "again", " ".join(faults), max_restarts=10)
    assert ends_of(tmp_path / "again") == ends_of(never), f"seed {seed}, {faults}"
    assert len(list((tmp_path / "again").glob("struck_*"))) > 5, f"seed {seed}, {faults}"
    for folder in (tmp_path / "again/trainer").iterdir():
        assert store.problem_of(folder) is None, f"seed {seed}, {faults}"


@pytest.mark.slow
def test_what_fails_at_the_same_step_again_is_not_tried_a_third_time(tmp_path):
    finished = run_ranks(
        "fails_at_a_step.py", ranks=2, backend="mpi", log_dir=tmp_path / "logs", options=("--max-restarts", 5)
    )
    assert finished.returncode == 1
    assert re.findall("restart .*;", finished.stderr) == ["restart 1 of 5 since step 3 in 1 s;"]
    assert "mindnlp-dp: no restart: the same ValueError came twice at step 3" in finished.stderr.splitlines()
