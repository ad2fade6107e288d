"""How cores are dealt out to ranks."""

import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindnlp_dp_plugin import DataParallelConfig
from mindnlp_dp_plugin.job.hardware import allowed_cores
from mindnlp_dp_plugin.runtime.cpu_affinity import is_wanted, share
from tests.harness import run


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
    assert not is_wanted(DataParallelConfig(backend="hccl"))
    assert not is_wanted(DataParallelConfig())
    assert is_wanted(DataParallelConfig(backend="mpi"))
    assert not is_wanted(DataParallelConfig(backend="mpi", cpu_tuning=False))


PRINT = (
    "import mindspore\n"
    "from mindspore._c_expression import RuntimeConf\n"
    "print('blocks', RuntimeConf.get_instance().is_launch_blocking())\n"
)


def printed_by(script, code, *start, **variables):
    script.write_text(code)
    finished = run([sys.executable, *start, script], env=variables, cwd=script.parent)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.parametrize("switch, blocks", [("1", True), ("0", False)])
@pytest.mark.parametrize("start", [[], ["-m", "mindnlp_dp_plugin.cli", "run", "--nproc", "1"]])
def test_plain_python_launches_operators_synchronously_as_a_rank_does(tmp_path, start, switch, blocks):
    code = f"import mindnlp_dp_plugin\n{PRINT}"
    assert f"blocks {blocks}" in printed_by(tmp_path / "script.py", code, *start, MINDNLP_DP_CPU_TUNING=switch)


@pytest.mark.parametrize("change", ["install(dp.DataParallelConfig(cpu_tuning=False))", "uninstall()"])
def test_who_says_otherwise_before_mindspore_is_imported_is_heard(tmp_path, change):
    code = f"import mindnlp_dp_plugin as dp\ndp.{change}\n{PRINT}"
    assert "blocks False" in printed_by(tmp_path / "script.py", code)
