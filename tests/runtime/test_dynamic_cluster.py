"""Ranks that a launcher without MindSpore's cluster has started: here two processes with torchrun's variables."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from mindnlp_dp_plugin.job.environments import VARIABLES
from tests.harness import REPOSITORY, TIMEOUT_S, kill_tree, run
from tests.job.test_environments import ASCEND_JOB
from tests.launch.pieces import PROMPTLY_S
from tests.ports import free_port

SCRIPT = """
import mindnlp_dp_plugin as dp
import os, psutil, signal, sys, time

cores = len(os.sched_getaffinity(0))
print(dp.all_gather_object((dp.get_rank(), dp.get_world_size(), dp.get_local_rank())), cores, flush=True)
first = dp.all_gather_object(os.getpid())[0]
if sys.argv[1] == "is killed" and dp.get_rank() == 0:
    print(*(child.pid for child in psutil.Process().children()), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "is killed":
    while psutil.Process(first).status() != psutil.STATUS_ZOMBIE:  # else rank 0 might hear of this failure first
        time.sleep(0.01)
    sys.exit(7)
"""


@pytest.fixture
def ranks(tmp_path):
    started = []

    def start(*arguments, script=SCRIPT, num=2, **further):
        (tmp_path / "script.py").write_text(script)
        inherited = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        port = str(free_port())
        for rank in range(num):
            environ = {"RANK": rank, "WORLD_SIZE": num, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": num}
            environ = {name: str(value) for name, value in environ.items()}
            environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "PYTHONPATH": str(REPOSITORY)} | further
            command = [sys.executable, tmp_path / "script.py", *arguments]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            started.append(subprocess.Popen(command, env=inherited | environ, text=True, **pipes))
        return started

    yield start
    for process in started:
        kill_tree(process.pid)
        process.communicate()


def said(stdout):
    """The script's own lines: MindSpore prints one about its allocator, sooner or later."""
    return [line for line in stdout.splitlines() if not line.startswith("[MS_ALLOC_CONF]")]


def test_they_join_over_mccl_each_on_its_cores_and_leave_nothing_behind(ranks):
    ended = [(*process.communicate(timeout=TIMEOUT_S), process.returncode) for process in ranks("ends")]
    cores = len(os.sched_getaffinity(0))
    share = cores // 2 if cores == os.cpu_count() and cores > 1 else cores
    for stdout, stderr, returncode in ended:
        assert (said(stdout), returncode) == ([f"[(0, 2, 0), (1, 2, 1)] {share}"], 0), stderr


def test_the_scheduler_does_not_outlive_rank_0_and_a_rank_that_fails_ends_at_once(ranks):
    first, second = ranks("is killed")
    assert second.wait(TIMEOUT_S) == 7
    stdout, _ = first.communicate(timeout=TIMEOUT_S)
    assert first.returncode == -signal.SIGKILL
    deadline = time.monotonic() + PROMPTLY_S
    scheduler = said(stdout)[1]
    while psutil.pid_exists(int(scheduler)) and psutil.Process(int(scheduler)).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_scheduler_that_ends_at_once_is_named_at_once(ranks, tmp_path):
    (tmp_path / "mindspore.py").write_text("import sys; sys.exit('no cluster today')")  # beside the script: found first
    first, _ = ranks("ends", PYTHONPATH=f"{tmp_path}:{REPOSITORY}")
    _, stderr = first.communicate(timeout=PROMPTLY_S)
    assert first.returncode == 1 and "no cluster today" in stderr
    assert "MindSpore's scheduler, which rank 0 starts, has ended with status 1 before it listened on" in stderr


ENDS = """
import mindnlp_dp_plugin as dp
import os, signal, sys

rank, way = int(sys.argv[1]), sys.argv[2]
dp.barrier()
if dp.get_rank() == rank:
    if way == "raises":
        raise ValueError("no such label")
    if way == "sys.exit":
        sys.exit(7)
    if way == "os._exit":
        os._exit(7)
    os.kill(os.getpid(), signal.SIGKILL)
dp.barrier()
"""
WAYS = {"raises": 1, "sys.exit": 7, "os._exit": 7, "is killed": -signal.SIGKILL}


@pytest.mark.parametrize("rank, way", [(1, "raises"), (0, "sys.exit"), (1, "os._exit"), (0, "is killed")])
def test_a_rank_that_fails_ends_the_others_though_no_launcher_does(ranks, rank, way):
    started = ranks(str(rank), way, script=ENDS)
    other = started[1 - rank]
    assert started[rank].wait(TIMEOUT_S) == WAYS[way]
    _, stderr = other.communicate(timeout=PROMPTLY_S)
    killed = f"is gone (killed, or its machine is out of reach), and rank {1 - rank} is in barrier (number 2)"
    expected = killed if way == "is killed" else f"has failed, so rank {1 - rank} ends, too"
    assert other.returncode == 1 and f"DataParallelError: rank {rank} {expected}" in stderr


WAITS_FOR_A_SUM = """
import mindnlp_dp_plugin as dp
import os, signal
import mindspore, numpy as np
from mindnlp_dp_plugin import collectives

dp.barrier()
if dp.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
collectives.current().all_reduce(mindspore.Tensor(np.ones(4, np.float32))).wait()
print("has the sum", flush=True)
"""


def test_a_rank_that_waits_for_a_sum_of_gradients_is_seen_to_wait(ranks):
    first, _ = ranks(script=WAITS_FOR_A_SUM)
    stdout, stderr = first.communicate(timeout=TIMEOUT_S)
    assert first.returncode == 1 and said(stdout) == []
    assert "DataParallelError: rank 1 is gone" in stderr and "rank 0 is in all_reduce" in stderr


ALONE = """
import mindnlp_dp_plugin as dp
import os, signal, sys, time

dp.barrier()
if dp.get_rank() == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if dp.get_rank() == 0:
    time.sleep(8)  # much longer than a rank takes to hear of another
    print("needed nobody", flush=True)
os._exit(0)
"""


def test_a_rank_that_waits_for_nobody_goes_on_whether_others_are_killed_or_leave(ranks):
    first, killed, leaves = ranks(script=ALONE, num=3)
    assert (killed.wait(TIMEOUT_S), leaves.wait(TIMEOUT_S)) == (-signal.SIGKILL, 0)
    stdout, stderr = first.communicate(timeout=TIMEOUT_S)
    assert (said(stdout), first.returncode) == (["needed nobody"], 0), stderr


HAS_FORKED = """
import mindnlp_dp_plugin as dp
import os, signal, time

dp.barrier()
if dp.get_rank() == 1:
    if not (child := os.fork()):
        time.sleep(600)
    print("forked", child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
dp.barrier()
"""


def test_a_child_that_outlives_a_killed_rank_hides_nothing(ranks):
    first, second = ranks(script=HAS_FORKED)
    child = next(int(line.split()[1]) for line in second.stdout if line.startswith("forked"))
    try:
        _, stderr = first.communicate(timeout=TIMEOUT_S)
        assert first.returncode == 1 and "rank 1 is gone" in stderr
        assert psutil.pid_exists(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_msrun_starts_ranks_where_an_ascend_job_has_set_variables_for_its_pod(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import mindnlp_dp_plugin as dp\nprint(dp.all_gather_object(dp.get_rank()), flush=True)\n")
    msrun = [Path(sys.executable).with_name("msrun"), "--worker_num=2", "--local_worker_num=2", "--join=True"]
    where = [f"--master_port={free_port()}", f"--log_dir={tmp_path}"]
    ended = run([*msrun, *where, script], env={**ASCEND_JOB, "MS_NODE_RANK": "0"}, cwd=tmp_path)
    logs = [(tmp_path / f"worker_{rank}.log").read_text() for rank in (0, 1)]
    assert ended.returncode == 0, f"{ended.stderr}{logs}"
    assert all("[0, 1]" in log for log in logs)
