"""How cores are dealt out to ranks."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindnlp_dp_plugin.job.hardware import allowed_cores
from mindnlp_dp_plugin.runtime.cpu_affinity import is_wanted, share


@given(st.integers(1, 200), st.integers(1, 200))
def test_cores_are_shared_out_evenly_and_completely(num_cores, num_ranks):
    shares = [share(list(range(num_cores)), rank, num_ranks) for rank in range(num_ranks)]
    assert {core for mine in shares for core in mine} == set(range(num_cores))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    users = [sum(core in mine for mine in shares) for core in range(num_cores)]
    assert max(users) - min(users) <= 1


def test_allowed_cores_are_those_of_this_process():
    assert set(allowed_cores()) == os.sched_getaffinity(0)


def test_tuning_is_for_the_cpu_only(monkeypatch):
    monkeypatch.setattr("mindnlp_dp_plugin.runtime.cpu_affinity.has_ascend", lambda: True)
    assert not is_wanted({"MINDNLP_DP_BACKEND": "hccl"})
    assert not is_wanted({})
    assert is_wanted({"MINDNLP_DP_BACKEND": "mpi"})
    assert not is_wanted({"MINDNLP_DP_BACKEND": "mpi", "MINDNLP_DP_CPU_TUNING": "0"})


@pytest.mark.parametrize("switch, blocks", [("1", True), ("0", False)])
@pytest.mark.parametrize("start", [[], ["-m", "mindnlp_dp_plugin.cli", "run", "--nproc", "1"]])
def test_plain_python_launches_operators_synchronously_as_a_rank_does(tmp_path, start, switch, blocks):
    script = tmp_path / "script.py"
    script.write_text(
        "import mindnlp_dp_plugin, mindspore\n"
        "from mindspore._c_expression import RuntimeConf\n"
        "print('blocks', RuntimeConf.get_instance().is_launch_blocking())\n"
    )
    environ = {**os.environ, "MINDNLP_DP_CPU_TUNING": switch}
    command = [sys.executable, *start, str(script)]
    finished = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"blocks {blocks}" in finished.stdout
