"""A checkpoint folder holds whole checkpoints, whenever the one who writes it is killed."""

import sys

from mindnlp_dp_plugin.checkpoint import store
from tests.harness import PROGRAMS, run


def test_replaced_by_another_of_the_same_step_one_of_the_two_is_there_whenever_it_is_killed(tmp_path):
    finished = run([sys.executable, PROGRAMS / "killed_replacing.py", tmp_path], env={"MINDNLP_DP_DEFERRED": "1"})
    assert finished.returncode == 0, finished.stderr
    found = []
    for number in range(len(list(tmp_path.iterdir()))):
        home = tmp_path / str(number)
        store.recover(home)
        found.append(store.read_record(home / "checkpoint-7")["content"])
        store.clear_leftovers(home)
        assert [path.name for path in home.iterdir()] == ["checkpoint-7"]
    num_old = found.count("old")
    assert found == ["old"] * num_old + ["new"] * (len(found) - num_old)
    assert num_old > 10 and len(found) - num_old > 5
