"""Jobs that are started again after a rank has died end as one that was left alone: to the last bit."""

import json
import re
import shutil
import stat

import pytest

from mindnlp_dp_plugin.checkpoint import store
from tests.harness import run_ranks

FAULTS = "backward:1:0:SIGKILL:0.01 save:7:0:SIGSEGV:0.004"  # see tests/programs/faults.py; a save takes about 10 ms


def run(output, faults="", max_restarts=0, async_save="0"):
    output.mkdir(exist_ok=True)
    arguments = ("struck.py", output, 12)
    env = {"FAULTS": faults, "FAULT_FOLDER": str(output), "MINDNLP_DP_ASYNC_SAVE": async_save}
    options = ("--max-restarts", max_restarts)
    return run_ranks(*arguments, ranks=2, backend="mpi", log_dir=output / "logs", env=env, options=options)


@pytest.mark.parametrize("async_save", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_restarted_by_the_launcher_it_goes_on_from_its_own_newest_checkpoint(tmp_path, async_save):
    never, again = tmp_path / "never", tmp_path / "again"
    assert run(never).returncode == 0
    if async_save == "0":  # else a start may find nothing but this, and the program's model depends on what it finds
        shutil.copytree(never / "trainer/checkpoint-12", again / "trainer/checkpoint-5")
    finished = run(again, FAULTS, max_restarts=2, async_save=async_save)
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    assert "killed by SIGKILL" in finished.stderr and "killed by SIGSEGV" in finished.stderr
    assert finished.stderr.count("restart 1 of 2 since step ") == 2, "the budget has come back"
    if async_save == "0":  # else a checkpoint may not be whole yet when its rank is killed
        for start, came_from in ((1, "checkpoint-1\n"), (2, "checkpoint-")):
            log = (again / f"logs/restart_{start}/rank_0.log").read_text()
            assert f"Restart {start}: training continues from {again}/trainer/{came_from}" in log

    expected = [json.loads((never / f"end.rank{rank}.json").read_text()) for rank in (0, 1)]
    assert [json.loads((again / f"end.rank{rank}.json").read_text()) for rank in (0, 1)] == expected
    assert expected[0]["last"] != expected[0]["best"]
    left = {folder.name: folder for folder in (again / "trainer").iterdir()}
    assert sorted(left) == sorted([expected[0]["best_checkpoint"], "checkpoint-12"])
    for folder in left.values():
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert store.problem_of(folder) is None and store.read_record(folder).train_call == 1


@pytest.mark.slow
def test_what_fails_at_the_same_step_again_is_not_tried_a_third_time(tmp_path):
    finished = run_ranks(
        "fails_at_a_step.py", ranks=2, backend="mpi", log_dir=tmp_path / "logs", options=("--max-restarts", 5)
    )
    assert finished.returncode == 1
    assert re.findall("restart .*;", finished.stderr) == ["restart 1 of 5 since step 3 in 1 s;"]
    assert "mindnlp-dp: no restart: the same ValueError came twice at step 3" in finished.stderr.splitlines()
