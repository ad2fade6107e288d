"""Starting ranks, showing rank 0, and ending everybody: with real processes on both CPU engines."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from itertools import cycle, product
from pathlib import Path

import pytest

from mindnlp_dp_plugin.job.hardware import usable_cores
from mindnlp_dp_plugin.job.signals import SAME_REQUEST_S
from mindnlp_dp_plugin.launch.signals import seconds_of_grace
from tests.harness import REPOSITORY, start
from tests.launch.conftest import TIMEOUT_S
from tests.launch.pieces import FAILED, PROMPTLY_S, READY, SLEEP, STUBBORN, once_all_are_ready, until_exists

BACKENDS = ("mpi", "mccl")
REAL_BACKENDS = ("mpi", pytest.param("mccl", marks=pytest.mark.slow))  # where ranks import MindSpore


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_ranks_run_and_rank_0_is_shown(runner, backend):
    script = runner.script("print(f'rank {rank} of many'); print('to stderr', file=sys.stderr)")
    outcome = runner.run("--nproc", "3", "--backend", backend, script)
    assert (outcome.returncode, outcome.stderr) == (0, f"mindnlp-dp: all ranks are done; logs: {outcome.log_dir}\n")
    assert outcome.stdout == "rank 0 of many\nto stderr\n"
    assert [outcome.log(rank) for rank in range(3)] == [f"rank {rank} of many\nto stderr\n" for rank in range(3)]
    assert stat.S_IMODE(os.stat(outcome.log_dir).st_mode) == 0o700
    assert not runner.left_behind()


def test_progress_bars_arrive_byte_by_byte_while_the_script_runs(runner):
    """The script goes on when it is told that its last bar has arrived."""
    bar = "print(f'\\r{i}', end='', file=sys.stderr)\n"
    script = runner.script("".join(f"i = {i}\n{bar}{until_exists(f'has_seen_{i}')}" for i in range(4)))
    popen = runner.start("--nproc", "2", "--backend", "mpi", script)
    for i in range(4):
        assert os.read(popen.stdout.fileno(), 100) == b"\r%d" % i
        (runner.log_dir / f"has_seen_{i}").touch()
    assert runner.finish(popen).returncode == 0


@pytest.mark.parametrize("leave", ["sys.exit()", "sys.exit(0)"])
def test_leaving_with_zero_is_success(runner, leave):
    outcome = runner.run("--nproc", "1", runner.script(leave))
    assert (outcome.returncode, outcome.stderr) == (0, f"mindnlp-dp: all ranks are done; logs: {outcome.log_dir}\n")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_peers_later_exception_does_not_hide_the_first(runner, backend):
    script = runner.script("time.sleep(0.5 + 0.001 * (2 - rank) * 5)\nraise ValueError(f'from {rank}')")
    outcome = runner.run("--nproc", "3", "--backend", backend, script)
    records = sorted((outcome.log_dir).glob("*.error.json"), key=lambda path: path.read_text().partition("time_ns")[2])
    first = records[0].name.removeprefix("rank_").removesuffix(".error.json")
    assert f"rank {first} on " in outcome.stderr.splitlines()[0]


@pytest.mark.parametrize(
    "backend, signum",
    [
        *product(BACKENDS, (signal.SIGINT, signal.SIGTERM)),  # which mpirun passes on by itself, too
        *zip(cycle(BACKENDS), (signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM)),
    ],
)
def test_stopping_the_launcher_ends_everybody(runner, backend, signum):
    popen = started_and_ready(runner, backend, READY + SLEEP)
    popen.send_signal(signum)
    outcome = runner.finish(popen)
    assert outcome.seconds < PROMPTLY_S
    # After Ctrl-C it dies by the signal, for a shell's loop to end, too; the shell shows 130.
    assert outcome.returncode == (-signum if signum == signal.SIGINT else 128 + signum)
    assert outcome.stderr.count("\n") == 1 and signum.name in outcome.stderr
    assert json.loads((outcome.log_dir / "result.json").read_text())["exit_code"] == 128 + signum
    assert not runner.left_behind()


def started_and_ready(runner, backend, body, *options):
    popen = runner.start("--nproc", "2", "--backend", backend, *options, runner.script(HANDLERS + body))
    for rank in range(2):
        runner.wait_for(f"ready_{rank}")
    return popen


HANDLERS = """
def finish(signum, frame):
    print(f'got {signum}')
    time.sleep(0.5)
    open(os.path.join(os.environ['FOLDER'], f'finished_{rank}'), 'w').close()
    sys.exit()
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGUSR2])
def test_a_scripts_own_handler_is_called_and_has_time(runner, backend, signum):
    popen = started_and_ready(runner, backend, f"signal.signal({signum:d}, finish)\n{READY}{SLEEP}")
    popen.send_signal(signum)
    popen.send_signal(signum)  # `timeout` sends each signal twice
    outcome = runner.finish(popen)
    assert (outcome.returncode, outcome.stdout) == (0, f"got {signum:d}\n"), outcome
    assert all((outcome.log_dir / f"finished_{rank}").exists() for rank in range(2))


def test_ranks_that_do_not_listen_have_so_much_time_and_no_more(runner):
    popen = started_and_ready(runner, "mccl", STUBBORN + READY + SLEEP, "--grace", "1")
    popen.send_signal(signal.SIGUSR1)
    outcome = runner.finish(popen)
    assert outcome.returncode == 138 and 1 < outcome.seconds < PROMPTLY_S
    assert not runner.left_behind()


def test_ranks_have_what_is_left_of_slurms_time(runner):
    ends = int(time.time()) + 10
    runner.environ["SLURM_JOB_END_TIME"] = str(ends)
    popen = started_and_ready(runner, "mccl", STUBBORN + READY + SLEEP)
    popen.send_signal(signal.SIGUSR1)
    outcome = runner.finish(popen)
    assert outcome.returncode == 138 and outcome.seconds < PROMPTLY_S
    assert time.time() > ends - 2
    assert not runner.left_behind()


@pytest.mark.parametrize(
    ("asked", "signum", "ends", "expected"),
    [
        (None, signal.SIGUSR1, "1060", 58),
        (None, signal.SIGUSR2, "1001", 0),
        (None, signal.SIGTERM, "1060", 30),
        (None, signal.SIGUSR1, None, 30),
        (None, signal.SIGUSR1, "Unknown", 30),
        (7, signal.SIGUSR1, "1060", 7),
    ],
)
def test_how_long_ranks_may_take(monkeypatch, asked, signum, ends, expected):
    monkeypatch.setattr(time, "time", lambda: 1000)
    if ends is not None:
        monkeypatch.setenv("SLURM_JOB_END_TIME", ends)
    assert seconds_of_grace(asked, signum) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_signal_ends_everybody_at_once(runner, backend):
    note = "open(os.path.join(os.environ['FOLDER'], f'asked_{rank}'), 'w').close()"
    waits = f"def wait(*_): {note}\nsignal.signal(signal.SIGTERM, wait)\n{READY}while True: {SLEEP}"
    popen = started_and_ready(runner, backend, waits, "--grace", "600")
    popen.send_signal(signal.SIGTERM)
    for rank in range(2):
        runner.wait_for(f"asked_{rank}")
    time.sleep(2 * SAME_REQUEST_S)
    popen.send_signal(signal.SIGTERM)
    assert runner.finish(popen, PROMPTLY_S).returncode == 143
    assert not runner.left_behind()


def test_a_signal_that_is_ignored_stays_ignored(runner):
    background = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"]  # as `mindnlp-dp run ... &` in a script
    popen = start(
        [*background, *runner.command("--nproc", "1", runner.script(READY + until_exists("has_ignored")))],
        runner.environ,
        runner.folder,
    )
    runner.wait_for("ready_0")
    popen.send_signal(signal.SIGINT)
    (runner.log_dir / "has_ignored").touch()
    assert runner.finish(popen).returncode == 0


WORK = """
from pathlib import Path
from mindnlp_dp_plugin.checkpoint import store

stubborn = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'
subprocess.Popen([sys.executable, '-c', stubborn], start_new_session=True)
if rank == 0:
    saving = store.atomic_save('output')
    (saving.__enter__() / 'half').write_text(os.environ['MINDNLP_DP_STATUS_DIR'])
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_outlives_a_killed_launcher(runner, backend):
    (runner.folder / "output").mkdir()
    popen = started_and_ready(runner, backend, WORK + READY + SLEEP)
    (half,) = runner.folder.glob("output/.mindnlp_dp_plugin/*/half")
    shared = Path(half.read_text())
    assert shared.is_dir()
    popen.kill()
    runner.finish(popen)
    runner.require_nothing_left()
    assert not shared.exists() and not os.listdir(runner.folder / "output")


def test_a_scheduler_that_dies_is_named(runner):
    (runner.folder / "mindspore.py").write_text("raise ImportError('broken MindSpore')")
    runner.environ["PYTHONPATH"] = f"{runner.folder}{os.pathsep}{runner.environ['PYTHONPATH']}"
    outcome = runner.run("--nproc", "2", "--backend", "mccl", runner.script(SLEEP))
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("mindnlp-dp: scheduler on ") and "broken MindSpore" in outcome.stderr


def test_an_earlier_run_in_the_same_directory_leaves_no_trace(runner):
    failing, fine = runner.script("raise ValueError", "failing.py"), runner.script("print('fine')", "fine.py")
    assert runner.run("--nproc", "1", failing).returncode == 1
    outcome = runner.run("--nproc", "1", fine)
    assert (outcome.returncode, outcome.stdout, outcome.log(0)) == (0, "fine\n", "fine\n")
    assert not list(outcome.log_dir.glob("*.error.json"))


def test_an_earlier_failure_under_mpirun_is_not_reported_again(runner):
    failing = ("--nproc", "2", "--backend", "mpi")
    assert runner.run(*failing, runner.script(once_all_are_ready(1, "os.kill(os.getpid(), 9)"))).returncode == 137
    runner.forget("ready_*")
    assert "rank 0 on " in runner.run(*failing, runner.script(once_all_are_ready(0, "os._exit(3)"))).stderr


def test_variables_of_an_outer_launcher_do_not_reach_the_ranks(runner):
    runner.environ.update(RANK_TABLE_FILE="/nowhere", RANK_SIZE="8", RANK_ID="7", OMPI_COMM_WORLD_SIZE="4")
    outcome = runner.run("--nproc", "1", runner.script("print(rank, 'RANK_SIZE' in os.environ)"))
    assert outcome.stdout == "0 False\n"


LOOP = """
import json, psutil
import mindnlp_dp_plugin
this = psutil.Process()
mindnlp_dp_plugin.barrier()
siblings = this.parent().children()  # with MCCL also the scheduler
connections = [connection for process in siblings for connection in process.net_connections()]
seen = {
    'listening': [c.laddr.ip for c in connections if c.status == psutil.CONN_LISTEN],
    'shared': [m.path for m in this.memory_maps() if m.path.startswith('/dev/shm/')],
    'board': os.environ['MINDNLP_DP_STATUS_DIR'],
}
open(os.path.join(os.environ['FOLDER'], f'seen_{rank}'), 'w').write(json.dumps(seen))
for step in range(100000):
    mindnlp_dp_plugin.barrier()
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rank_killed_amid_real_collectives_ends_the_job_at_once(runner, backend):
    runner.environ["PYTHONPATH"] = str(REPOSITORY)
    kill = f"    if (step, rank) == (20, 1):\n        {FAILED}        os.kill(os.getpid(), 9)\n"
    outcome = runner.run("--nproc", "2", "--backend", backend, runner.script(LOOP + kill))
    assert time.time() - outcome.failed_at() < PROMPTLY_S
    assert outcome.returncode == 137
    assert "rank 1 on " in outcome.stderr.splitlines()[0] and "SIGKILL" in outcome.stderr.splitlines()[0]
    assert not runner.left_behind()
    for rank in range(2):
        seen = json.loads((outcome.log_dir / f"seen_{rank}").read_text())
        # Nobody listens to the network; with MPI nobody listens at all, but mpirun itself.
        assert set(seen["listening"]) == ({"127.0.0.1"} if backend == "mccl" else set())
        assert seen["shared"] and all(path.startswith(f"{seen['board']}/") for path in seen["shared"])
        assert not os.path.exists(seen["board"]), "so nothing is left in shared memory"


@pytest.mark.parametrize("backend", REAL_BACKENDS)
def test_a_rank_that_leaves_with_status_0_while_others_need_it_has_failed(runner, backend):
    runner.environ["PYTHONPATH"] = str(REPOSITORY)
    leave = f"    if (step, rank) == (20, 1):\n        {FAILED}        os._exit(0)\n"
    outcome = runner.run("--nproc", "2", "--backend", backend, runner.script(LOOP + leave))
    assert time.time() - outcome.failed_at() < PROMPTLY_S
    assert outcome.returncode == 1
    assert "rank 1 on " in outcome.stderr.splitlines()[0]
    assert "left before the end of its script, while the others still needed it" in outcome.stderr.splitlines()[0]
    assert not runner.left_behind()


def test_a_job_started_again_keeps_the_logs_of_each_start_and_gives_up_in_the_end(runner):
    fail = "print('start', os.environ['MINDNLP_DP_RESTART']); sys.exit(3) if rank == 1 else time.sleep(600)"
    outcome = runner.run("--nproc", "2", "--backend", "mccl", "--max-restarts", "2", runner.script(fail))
    assert outcome.returncode == 3
    assert outcome.stderr.count("rank 1 on ") == 3
    for restart, delay in ((1, 1), (2, 2)):
        folder = outcome.log_dir / f"restart_{restart}"
        assert f"mindnlp-dp: restart {restart} of 2 in {delay} s; logs: {folder}\n" in outcome.stderr
        assert (folder / "rank_1.log").read_text().startswith(f"start {restart}\n")
    assert outcome.log(1).startswith("start 0\n")
    assert not runner.left_behind()


def test_a_rank_names_a_thread_that_it_waits_for_at_its_end(runner):
    body = f"import threading\ndef wait():\n    {until_exists('is_told')}"
    script = runner.script(f"{body}threading.Thread(target=wait, name='of the script').start()")
    popen = runner.start("--nproc", "1", script)
    assert "rank 0 is at the end of its script and waits for its thread 'of the script'" in popen.stdout.readline()
    (runner.log_dir / "is_told").touch()
    assert runner.finish(popen).returncode == 0


def test_a_restart_that_succeeds_ends_with_0_and_ctrl_c_ends_the_waiting(runner):
    fail_twice = runner.script("sys.exit(int(os.environ['MINDNLP_DP_RESTART']) < 2)")
    popen = runner.start("--nproc", "1", "--max-restarts", "5", fail_twice)
    assert runner.finish(popen).returncode == 0
    note = "open(os.path.join(os.environ['FOLDER'], 'starts'), 'a').write('.')"
    popen = runner.start("--nproc", "1", "--max-restarts", "9", runner.script(f"{note}; sys.exit(4)", "always.py"))
    while b"in 4 s" not in (line := os.read(popen.stderr.fileno(), 65536)):
        assert line
    popen.send_signal(signal.SIGINT)
    assert runner.finish(popen).returncode == -signal.SIGINT
    assert (runner.log_dir / "starts").read_text() == "...", "it does not start again"


ENDS_WHILE_THE_LAUNCHER_IS_BUSY = """
import sys
from mindnlp_dp_plugin import cli
from mindnlp_dp_plugin.launch.monitor import Monitor

show = Monitor._show

def show_slowly(self):
    for _, popen in self._running:
        popen.wait()
    show(self)

Monitor._show = show_slowly
cli.main()
"""


def test_a_failure_between_two_looks_is_no_success(runner):
    python, _, _, *arguments = runner.command("--nproc", "1", runner.script("sys.exit(3)"))
    command = [python, "-c", ENDS_WHILE_THE_LAUNCHER_IS_BUSY, *arguments]
    assert subprocess.run(command, env=runner.environ, cwd=runner.folder, timeout=TIMEOUT_S).returncode == 3


LATE = """
import os, sys, time

class Late:
    def find_spec(self, name, path=None, target=None):
        if name == "mindspore":
            time.sleep(600)

rank = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ.get("MS_NODE_ID")
if rank == "1" and "mindnlp_dp_plugin.runtime.worker" in sys.orig_argv:
    sys.meta_path.insert(0, Late())
"""


@pytest.mark.parametrize("backend", REAL_BACKENDS)
def test_a_rank_that_never_joins_is_named_though_the_others_cannot_tell(runner, backend):
    (runner.folder / "late").mkdir()
    (runner.folder / "late" / "sitecustomize.py").write_text(LATE)
    runner.environ.update(PYTHONPATH=f"{runner.folder / 'late'}{os.pathsep}{REPOSITORY}", MINDNLP_DP_TIMEOUT="3")
    outcome = runner.run("--nproc", "2", "--backend", backend, runner.script("pass"))
    assert outcome.returncode == 1
    lines = outcome.stderr.splitlines()
    assert lines[0].startswith("mindnlp-dp: rank 1 on ")
    assert lines[1].startswith("DataParallelError: rank 1 has not joined the other ranks within timeout=3 "), lines
    assert any("in joining the other ranks" in line for line in lines if line.startswith("  rank 0: "))
    assert any("sitecustomize.py" in line and "find_spec" in line for line in lines), "rank 1's stack shows where it is"
    assert json.loads((outcome.log_dir / "result.json").read_text())["first_failure"]["rank"] == 1
    assert not runner.left_behind()


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reader_that_stalls_does_not_keep_a_failure_or_a_signal_from_being_noticed(runner, backend):
    flood = "if rank == 0:\n    for _ in range(64): print('x' * 2**16)\n"
    popen = runner.start(
        "--nproc", "2", "--backend", backend, runner.script(flood + once_all_are_ready(1, "os._exit(3)"))
    )
    assert popen.wait(TIMEOUT_S) == 3  # nobody reads its output
    popen.stdout.close()
    popen.stderr.close()
    runner.forget("ready_*")
    popen = runner.start("--nproc", "2", "--backend", backend, runner.script(flood + READY + SLEEP))
    for rank in range(2):
        runner.wait_for(f"ready_{rank}")
    popen.terminate()
    assert popen.wait(TIMEOUT_S) == 143
    popen.stdout.close()
    popen.stderr.close()
    assert not runner.left_behind()


def test_output_that_cannot_be_written_does_not_end_a_healthy_job(runner):
    script = runner.script("for _ in range(20): print('x' * 2**16); time.sleep(0.01)\nopen('done', 'w').close()")
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            runner.command("--nproc", "1", script),
            env=runner.environ, cwd=runner.folder, stdout=full, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
    assert (ended.returncode, (runner.folder / "done").exists()) == (0, True), ended.stderr
    assert "cannot show more (No space left on device)" in ended.stderr


@pytest.mark.parametrize("closed", ["<&-", ">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_end_no_job_and_spoil_no_log(runner, closed):
    script = runner.script("for _ in range(20): print('shown'); time.sleep(0.02)")
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *runner.command("--nproc", "1", script)]
    ended = subprocess.run(
        command, env=runner.environ, cwd=runner.folder, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert ended.returncode == 0, ended.stderr
    assert (runner.log_dir / "rank_0.log").read_text() == "shown\n" * 20


@pytest.mark.slow
def test_a_line_without_an_end_takes_no_memory(runner):
    script = runner.script(f"for _ in range(256): sys.stdout.write('x' * 2**20)\n{READY}time.sleep(1)\nsys.exit(3)")
    popen = subprocess.Popen(
        runner.command("--nproc", "1", script),
        env=runner.environ, cwd=runner.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    runner.wait_for("ready_0")
    lines = Path(f"/proc/{popen.pid}/status").read_text().splitlines()
    (peak,) = (int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    assert peak < 150_000, "kB"
    outcome = runner.finish(popen)
    assert outcome.returncode == 3 and len(outcome.stderr) < 10_000


def test_a_link_among_the_logs_and_the_folder_of_another_user_are_refused(runner):
    victim = runner.folder / "victim"
    victim.write_text("precious")
    runner.log_dir.mkdir()
    (runner.log_dir / "rank_0.log").symlink_to(victim)
    script = runner.script("pass")
    outcome = runner.run("--nproc", "1", script)
    assert outcome.returncode == 2 and "--log-dir" in outcome.stderr
    assert victim.read_text() == "precious"
    if os.geteuid() == 0:
        (runner.log_dir / "rank_0.log").unlink()
        os.chown(runner.log_dir, 65534, 65534)
        assert "belongs to another user" in runner.run("--nproc", "1", script).stderr


def test_all_ranks_are_shown_if_asked_for(runner):
    outcome = runner.run("--nproc", "2", "--backend", "mccl", "--tee", "all", runner.script("print('one\\ntwo')"))
    assert sorted(outcome.stdout.splitlines()) == ["[rank 0] one", "[rank 0] two", "[rank 1] one", "[rank 1] two"]


def test_lines_of_several_ranks_stay_whole_however_many_are_written_at_once(runner):
    script = runner.script("os.write(1, b''.join(b'%06d of rank %d\\n' % (i, rank) for i in range(9000)) + b'the end')")
    outcome = runner.run("--nproc", "2", "--backend", "mccl", "--tee", "all", script)
    expected = [*(f"{i:06d} of rank {{0}}" for i in range(9000)), "the end"]
    for rank in range(2):
        lines = [line for line in outcome.stdout.splitlines() if line.startswith(f"[rank {rank}] ")]
        assert lines == [f"[rank {rank}] " + line.format(rank) for line in expected]


def test_the_result_can_be_read(runner):
    script = runner.script(once_all_are_ready(1, "raise KeyError('gone')"))
    outcome = runner.run("--nproc", "2", "--backend", "mccl", "--max-restarts", "1", script)
    result = json.loads((outcome.log_dir / "result.json").read_text())
    failure = result.pop("first_failure")
    assert 0 < result.pop("seconds") < TIMEOUT_S and len(result.pop("job")) == 32
    assert result.pop("environment").keys() == {"processor", "mindspore", "mindnlp", "mindnlp-dp-plugin", "numpy"}
    assert result == {
        "format": 1, "status": "failed", "exit_code": 1, "restarts": 1, "last_checkpoint": None, "command": [script],
        "training": None, "ranks": 2,
    }  # fmt: skip
    assert (failure["rank"], failure["exception"], failure["node"]) == (1, "KeyError", socket.gethostname())
    outcome = runner.run("--nproc", "1", runner.script("pass", "fine.py"))
    result = json.loads((outcome.log_dir / "result.json").read_text())
    assert (result["status"], result["exit_code"], result["first_failure"]) == ("succeeded", 0, None)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_log_directory_that_is_gone_changes_nothing(runner, backend):
    vanish = "import shutil; shutil.rmtree(os.environ['FOLDER']); os.kill(os.getpid(), 9)"
    script = runner.script(once_all_are_ready(1, vanish))
    outcome = runner.run("--nproc", "2", "--backend", backend, script)
    assert outcome.returncode == 137 and "rank 1 on " in outcome.stderr, outcome.stderr
    assert "killed by SIGKILL" in outcome.stderr


def test_a_log_directory_that_is_in_use_is_refused(runner):
    first = runner.start("--nproc", "1", runner.script(READY + SLEEP))
    runner.wait_for("ready_0")
    second = runner.run("--nproc", "1", runner.script("print('overwritten')", "second.py"))
    assert second.returncode == 2 and "belongs to a job that is still running" in second.stderr
    first.terminate()
    assert runner.finish(first).returncode == 143


def test_orphans_of_a_rank_are_reaped(runner):
    body = """
        import psutil
        def is_zombie(process):
            try:
                return process.status() == psutil.STATUS_ZOMBIE
            except psutil.NoSuchProcess:  # reaped since it was listed
                return False
        def zombies():
            return [each for each in psutil.Process().parent().children() if is_zombie(each)]
        for _ in range(20): subprocess.run(["sh", "-c", "true &"])
        while len(zombies()) >= 20: time.sleep(0.05)
        print("reaped")
    """
    outcome = runner.run("--nproc", "2", "--backend", "mccl", runner.script(body))
    assert outcome.stdout == "reaped\n"


def run_beside(runner, file_system, command):
    """Run a command in a namespace of its own, in which a small file system is mounted."""
    own = ["unshare", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*own, "true"], capture_output=True).returncode:
        pytest.skip("this machine allows no mount namespaces")
    return subprocess.run(
        [*own, "sh", "-ec", f'mount -t tmpfs -o {file_system}\nexec "$@"', "sh", *command],
        env=runner.environ, cwd=runner.folder, capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip


SUMS = """
import mindspore, numpy as np, mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives

group = collectives.current()
for size in (10, 2**22):
    values = np.full(size, 1.0 + dp.get_rank(), np.float32)
    summed = values if group.uses_numpy else mindspore.Tensor(values)
    group.all_reduce(summed).wait()
    assert (np.asarray(summed) == sum(range(1, dp.get_world_size() + 1))).all()
"""


@pytest.mark.parametrize(
    "backend, size, num_ranks",
    [
        pytest.param("mpi", "64m", 4, marks=pytest.mark.slow),
        ("mpi", "4k", 2),
        pytest.param("mccl", "4k", 2, marks=pytest.mark.slow),
    ],
)
def test_ranks_exchange_gradients_with_little_or_no_shared_memory(runner, backend, size, num_ranks):
    runner.environ["PYTHONPATH"] = str(REPOSITORY)
    command = runner.command("--nproc", str(num_ranks), "--backend", backend, runner.script(SUMS))
    ended = run_beside(runner, f"size={size} shm /dev/shm", command)
    assert ended.returncode == 0, ended.stderr
    assert ("note: /dev/shm has too little room" in ended.stderr) == (backend == "mpi")


def test_more_ranks_than_cores_are_told(runner):
    del runner.environ["MINDNLP_DP_CPU_TUNING"]
    num_ranks = usable_cores() + 1
    outcome = runner.run("--nproc", str(num_ranks), "--backend", "mccl", runner.script("pass"))
    assert outcome.returncode == 0
    assert outcome.stderr.startswith(f"mindnlp-dp: note: {num_ranks} ranks share {usable_cores()} cores"), (
        outcome.stderr
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_rank_that_fails_is_named_though_no_log_can_be_written(runner, backend):
    runner.log_dir.mkdir()
    script = runner.script("if rank == 1:\n    time.sleep(0.5)\n    while True: print('x' * 4096)\n" + SLEEP)
    command = runner.command("--nproc", "2", "--backend", backend, script)
    ended = run_beside(runner, f'size=64k logs "{runner.log_dir}"', command)
    assert ended.returncode == 1
    assert ended.stderr.startswith("mindnlp-dp: rank 1 on "), ended.stderr
    assert not runner.left_behind()
