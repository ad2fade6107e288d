"""What a rank starts is not mistaken for it, and nobody is blamed or ended without a reason."""

import os
import signal
import subprocess
import sys

import pytest

from mindnlp_dp_plugin.collectives.engines import ENGINES
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.job.rank_status import own_status, read_status, send_signal, status_path
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.launcher import plan
from mindnlp_dp_plugin.launch.mpi import find_mpirun
from tests.harness import REPOSITORY, run

BACKENDS = ["mpi", pytest.param("mccl", marks=pytest.mark.slow)]

REAL = "from dataclasses import replace\nimport mindnlp_dp_plugin as dp\n"
ACTS_AS_A_RANK = """
import json, os, sys
from pathlib import Path
from mindnlp_dp_plugin.job.rank_process import folder_told
from mindnlp_dp_plugin.job.rank_status import SAVES, note, show_status

show_status(0).begin_step(7)
show_status(0).fail()
note(SAVES, 'of_the_child')
print('told', folder_told('MINDNLP_DP_STATUS_DIR'), flush=True)
"""


@pytest.fixture
def real(runner):
    """With MindSpore and the plugin, and its collectives."""
    runner.environ["PYTHONPATH"] = str(REPOSITORY)
    return runner


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("way", ["subprocess", "fork", "spawn"])
def test_a_child_of_a_rank_never_acts_as_the_rank(runner, backend, way):
    child = runner.folder / "child.py"
    child.write_text(ACTS_AS_A_RANK)
    runs_it = f"import runpy; runpy.run_path({str(child)!r})"
    start = {
        "subprocess": f"subprocess.run([sys.executable, {str(child)!r}], check=True)",
        "fork": f"pid = os.fork()\n    if not pid:\n        {runs_it}; os._exit(0)\n    os.waitpid(pid, 0)",
        "spawn": f"subprocess.run([sys.executable, '-c', {runs_it!r}], start_new_session=True, check=True)",
    }[way]
    body = (
        f"if rank == 1:\n    {start}\n    time.sleep(0.5)\n"
        "from mindnlp_dp_plugin.job.rank_status import SAVES, noted\n"
        "from pathlib import Path\n"
        "print('noted', noted(Path(os.environ['MINDNLP_DP_STATUS_DIR']), SAVES))\n"
    )
    outcome = runner.run("--nproc", "2", "--backend", backend, runner.script(body))
    assert outcome.returncode == 0, outcome.stderr
    assert "told None" in outcome.log(1) and "noted []" in outcome.log(1)


CHILD_TRAINS = """
import subprocess
child = "import mindnlp_dp_plugin as dp; print('alone', dp.get_world_size(), dp.all_gather_object(5), flush=True)"
if dp.get_rank() == 1:
    print(subprocess.run([sys.executable, '-c', child], check=True, capture_output=True, text=True).stdout)
    pid = os.fork()
    if not pid:
        try:
            dp.barrier()
        except dp.DataParallelError as error:
            print('refused:', error, flush=True)
        os._exit(0)
    os.waitpid(pid, 0)
print(dp.all_gather_object(dp.get_rank()))
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_child_is_alone_and_calls_no_collective_of_the_ranks(real, backend):
    outcome = real.run("--nproc", "2", "--backend", backend, real.script(REAL + CHILD_TRAINS), timeout=200)
    assert outcome.returncode == 0, outcome.stderr
    assert "alone 1 [5]" in outcome.log(1)
    assert "refused: barrier was called in process " in outcome.log(1) and "a forked child of rank 1" in outcome.log(1)
    assert "[0, 1]" in outcome.stdout.splitlines()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("leave", [pytest.param("sys.exit(0)", marks=pytest.mark.slow), "sys.exit()"])
def test_a_rank_that_has_finished_is_not_killed_and_who_waits_for_it_is_told(real, backend, leave):
    script = real.script(f"{REAL}dp.barrier()\nif dp.get_rank() == 1: {leave}\nfor _ in range(9): dp.barrier()")
    outcome = real.run("--nproc", "2", "--backend", backend, script, timeout=200)
    assert outcome.returncode == 1
    assert "SIGRTM" not in outcome.stderr, outcome.stderr
    assert "rank 0 is in barrier (number 2), but rank 1 in its last barrier" in outcome.stderr or (
        "rank 1 is in its last barrier (number 2), but rank 0 in barrier" in outcome.stderr
    )
    assert "Stacks of rank 0" in outcome.stderr


FINISHED = """
import faulthandler, os, pathlib, signal, sys
from mindnlp_dp_plugin.job import stacks
stacks.answer_for_stacks(pathlib.Path(sys.argv[1]), 0)
faulthandler.unregister(stacks.SIGNAL)  # as Python does when it ends
os.kill(os.getpid(), stacks.SIGNAL)
print('lives')
"""


def test_a_process_that_ends_does_not_die_of_the_request_for_stacks(tmp_path):
    ended = run([sys.executable, "-c", FINISHED, tmp_path], env={"MINDNLP_DP_DEFERRED": "1"})
    assert (ended.returncode, ended.stdout) == (0, "lives\n"), ended.stderr


ASKED_OFTEN = """
import os, pathlib, sys, threading, time
from mindnlp_dp_plugin.job import stacks
stacks.answer_for_stacks(pathlib.Path(sys.argv[1]), 0)
def ask():
    for _ in range(20_000):
        os.kill(os.getpid(), stacks.SIGNAL)
        [pathlib.Path('a', str(number)).exists() for number in range(3)]
    print('lives', flush=True)
    os._exit(0)
threading.Thread(target=ask).start()
time.sleep(100)
"""


def test_a_request_for_stacks_never_kills_a_process_whose_threads_are_running(tmp_path):
    ended = run([sys.executable, "-c", ASKED_OFTEN, tmp_path], env={"MINDNLP_DP_DEFERRED": "1"})
    assert (ended.returncode, ended.stdout) == (0, "lives\n"), ended.stderr
    assert "in <module>" in (tmp_path / "rank_0.stacks").read_text()


def test_no_signal_is_sent_to_who_has_finished_or_to_another_process_of_its_number(tmp_path):
    with subprocess.Popen(["sleep", "60"]) as stranger:
        own = own_status(status_path(tmp_path, 0))
        assert send_signal(read_status(tmp_path, 0), 0), "0 asks only whether it could be sent"
        own.pid = stranger.pid
        assert not send_signal(read_status(tmp_path, 0), signal.SIGKILL)
        own.pid = os.getpid()
        own.end()
        assert not send_signal(read_status(tmp_path, 0), signal.SIGKILL)
        assert stranger.poll() is None
        stranger.kill()


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_may_leave_by_os_exit_each_when_it_is_done(real, backend):
    script = real.script(f"{REAL}dp.barrier()\ntime.sleep(2 * dp.get_rank())\nos._exit(0)")
    outcome = real.run("--nproc", "2", "--backend", backend, script, timeout=200)
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_rank_does_at_its_end_is_ended_by_no_timeout(real, backend):
    """Another rank waits for it longer than the watchdog, and the launcher, allow anywhere else."""
    # Joining takes one rank longer than the other.
    shortly = "dp.barrier()\ndp.install(replace(dp.DataParallelConfig.from_env(), timeout=4))\ndp.barrier()\n"
    body = f"{shortly}if rank == 0: time.sleep(12); print('sent')"
    outcome = real.run("--nproc", "2", "--backend", backend, real.script(REAL + body), timeout=200)
    assert outcome.returncode == 0 and "sent" in outcome.stdout.splitlines(), outcome.stderr


ANEW = """
if "ANEW" not in os.environ:
    os.environ["ANEW"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.argv])
print(dp.all_gather_object((dp.get_rank(), sys.argv[1:])))
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_script_that_executes_itself_anew_stays_on_the_same_ranks(real, backend):
    outcome = real.run("--nproc", "2", "--backend", backend, real.script(REAL + ANEW), "--lr", "a b", timeout=200)
    assert outcome.returncode == 0, outcome.stderr
    assert "[(0, ['--lr', 'a b']), (1, ['--lr', 'a b'])]" in outcome.stdout.splitlines()


LOSES_ITS_FOLDER = """
import shutil
from pathlib import Path
from mindnlp_dp_plugin.checkpoint import store
dp.barrier()  # joining takes one rank longer than the other
dp.install(replace(dp.DataParallelConfig.from_env(), timeout=5))
dp.barrier()
if rank == 1: shutil.rmtree(os.environ['MINDNLP_DP_STATUS_DIR'])
for _ in range(16):
    dp.barrier()
    time.sleep(0.5)
if rank == 0:
    with store.atomic_save('output') as scratch:
        (scratch / 'checkpoint-1').mkdir()
        store.publish(scratch / 'checkpoint-1', 'output', {})
dp.barrier()
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_job_whose_folder_is_removed_goes_on_saves_and_says_so(real, backend):
    (real.folder / "output").mkdir()
    outcome = real.run("--nproc", "2", "--backend", backend, real.script(REAL + LOSES_ITS_FOLDER), timeout=200)
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stderr.count("note: somebody has removed /dev/shm/mindnlp-dp-job-") == 1, outcome.stderr
    assert os.listdir(real.folder / "output" / "checkpoint-1") == ["data_parallel.json"]


@pytest.mark.parametrize("empty", ["sys.argv = []", "sys.argv.clear()"])
def test_a_script_that_empties_its_arguments_ends_as_it_would_alone(runner, empty):
    failed = runner.run("--nproc", "1", runner.script(f"{empty}\nraise ValueError('its own')"))
    assert failed.returncode == 1 and "ValueError: its own" in failed.stderr.splitlines()
    assert "IndexError" not in failed.stderr and "runpy" not in failed.stderr
    assert runner.run("--nproc", "1", runner.script(f"{empty}\nsys.exit(3)")).returncode == 3
    assert runner.run("--nproc", "1", runner.script(empty)).returncode == 0


@pytest.mark.parametrize("backend", ENGINES)
def test_what_the_launcher_sets_for_its_ranks_is_refused_by_none(tmp_path, backend):
    options = dict(resume=True, max_restarts=1, profile=True, scratch_dir=tmp_path)
    job = Job(["script.py"], 2, backend, tmp_path, **options)
    for process in plan(job):
        assert DataParallelConfig.from_env(process.environ).resume


FORKS = """
import os, sys
import mindnlp_dp_plugin as dp
dp.barrier()
pid = os.fork()
if not pid:
    sys.exit(7)
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert status == 7, status
print(dp.all_gather_object(dp.get_rank()))
"""


def test_a_child_that_a_script_forks_under_plain_mpirun_ends_by_itself(tmp_path):
    script = tmp_path / "forks.py"
    script.write_text(FORKS)
    as_root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    ended = run([find_mpirun(), *as_root, "-n", 2, "--map-by", ":OVERSUBSCRIBE", sys.executable, script], timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("[0, 1]") == 2
