"""What is around a job goes wrong, and the job ends as it should: used by ``benchmarks/faults.py``.

Each disturbance starts a job of two ranks, does something to it, and returns what was not as it should be.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from mindnlp_dp_plugin.job.variables import STATUS_DIR
from mindnlp_dp_plugin.launch.signals import STOPPING

REPOSITORY = Path(__file__).parents[1]
PROGRAM = REPOSITORY / "benchmarks" / "programs" / "disturbed.py"
ENDLESS, SHORT = "1000000", "20"
READY_S = 120
END_S = 60


class Job:
    """A job of two ranks in a folder of its own.

    Args:
        folder: For its logs and for what the ranks leave.
        engine: ``mpi`` or ``mccl``.
        rounds: How often the ranks meet.
        options: More for ``mindnlp-dp run``.
        before: What to put before the command.
        env: More variables.
        stdout: Where its output goes; a pipe that nobody reads if None.
    """

    def __init__(self, folder, engine, rounds, *options, before=(), env=None, stdout=None, nproc=2):
        self.folder = folder
        run = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", str(nproc), "--backend", engine]
        command = [*before, *run, "--log-dir", str(folder / "logs"), *options, str(PROGRAM), str(folder), rounds]
        self._errors = folder / f"errors_{len(list(folder.glob('errors_*')))}"
        with self._errors.open("w") as errors:
            self.launcher = subprocess.Popen(
                command,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY), **(env or {})},
                stdin=subprocess.DEVNULL, stdout=stdout or subprocess.PIPE, stderr=errors, cwd=folder,
                preexec_fn=heed_signals,
            )  # fmt: skip

    def rank(self, number):
        """The process of a rank, once all have joined."""
        deadline = time.monotonic() + READY_S
        while not all((self.folder / f"ready_{rank}").exists() for rank in range(2)):
            if time.monotonic() > deadline or self.launcher.poll() is not None:
                raise RuntimeError(f"the ranks never joined: {self._errors.read_text()}")
            time.sleep(0.05)
        time.sleep(0.1)
        return psutil.Process(int((self.folder / f"ready_{number}").read_text()))

    def end(self, exit_code, words=""):
        """What is wrong with how it ended."""
        try:
            status = self.launcher.wait(END_S if exit_code else READY_S)
        except subprocess.TimeoutExpired:
            self.launcher.kill()
            status = "never"
        if self.launcher.stdout:
            self.launcher.stdout.close()
        said, problems = self._errors.read_text(), []
        if status != exit_code:
            problems.append(f"exit code {status}, not {exit_code}: {said[:300]}")
        if words not in said:
            problems.append(f"says {said[:300]!r}, not {words!r}")
        return problems + self.left_behind()

    def left_behind(self):
        """Processes of the job that are there after some seconds."""
        deadline = time.monotonic() + 5
        while left := [p for p in psutil.process_iter(["cmdline"]) if str(self.folder) in (p.info["cmdline"] or [])]:
            if time.monotonic() > deadline:
                return [f"left {len(left)} processes"]
            time.sleep(0.1)
        return []


def heed_signals():
    """Also if this benchmark runs in the background, with SIGINT or SIGHUP ignored."""
    for signum in STOPPING:
        signal.signal(signum, signal.SIG_DFL)


def launcher_is_killed(folder, engine, chance):
    """Its ranks go with it."""
    job = Job(folder, engine, ENDLESS)
    job.rank(0)
    time.sleep(chance.uniform(0, 1))
    job.launcher.kill()
    return job.end(-signal.SIGKILL)


def reader_stalls(folder, engine, chance):
    """A rank that dies is noticed all the same."""
    job = Job(folder, engine, ENDLESS)
    rank = chance.randrange(2)
    process = job.rank(rank)
    time.sleep(1)  # by now the pipe is full
    process.kill()
    return job.end(137, f"rank {rank} on ")


def output_is_full(folder, engine, chance):
    """The job goes on."""
    with Path("/dev/full").open("wb") as full:
        return Job(folder, engine, SHORT, stdout=full).end(0, "all ranks are done")


def rank_is_stopped(folder, engine, chance):
    """The others wait no longer than they may."""
    job = Job(folder, engine, ENDLESS, env={"MINDNLP_DP_TIMEOUT": "15"}, stdout=subprocess.DEVNULL)
    job.rank(chance.randrange(2)).send_signal(signal.SIGSTOP)
    return job.end(1, "stopped by a signal")


def launcher_is_told_to_stop(folder, engine, chance):
    """By one of the signals of batch systems, while nobody reads."""
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
    number = signal.Signals[chance.choice(names)]
    job = Job(folder, engine, ENDLESS)
    job.rank(0)
    job.launcher.send_signal(number)
    return job.end(-number if number == signal.SIGINT else 128 + number, number.name)


def launcher_is_stopped(folder, engine, chance):
    """And goes on later: nothing has happened."""
    job = Job(folder, engine, SHORT, stdout=subprocess.DEVNULL)
    time.sleep(chance.uniform(0, 3))
    job.launcher.send_signal(signal.SIGSTOP)
    time.sleep(chance.uniform(0, 6))
    job.launcher.send_signal(signal.SIGCONT)
    return job.end(0, "all ranks are done")


def disk_of_the_logs_is_full(folder, engine, chance):
    """A rank that can write no more is named, though its record cannot be written either."""
    (folder / "logs").mkdir()
    mount = f'mount -t tmpfs -o size=64k logs "{folder / "logs"}"; exec "$@"'
    job = Job(folder, engine, ENDLESS, before=in_own_mounts(mount), stdout=subprocess.DEVNULL)
    return job.end(1, "mindnlp-dp: rank ")


def logs_are_removed(folder, engine, chance):
    """A rank that dies afterwards gives its status."""
    job = Job(folder, engine, ENDLESS, stdout=subprocess.DEVNULL)
    process = job.rank(1)
    shutil.rmtree(folder / "logs")
    process.kill()
    return job.end(137, "killed by SIGKILL")


def shared_memory_is_small(folder, engine, chance):
    """Ranks find another way."""
    size = chance.choice(["4k", "1m", "16m"])
    before = in_own_mounts(f'mount -t tmpfs -o size={size} shm /dev/shm; exec "$@"')
    return Job(folder, engine, SHORT, before=before, stdout=subprocess.DEVNULL).end(0, "all ranks are done")


def in_own_mounts(script):
    """What to put before a command that sees other mounts than the rest of this machine."""
    return ["unshare", "--map-root-user", "--mount", "sh", "-ec", script, "sh"]


def folder_in_shared_memory_is_removed(folder, engine, chance):
    """As systemd does at a logout: the job goes on, and says so."""
    job = Job(folder, engine, "300", stdout=subprocess.DEVNULL)
    shutil.rmtree(job.rank(chance.randrange(2)).environ()[STATUS_DIR])
    return job.end(0, "somebody has removed")


def rank_is_done_early(folder, engine, chance):
    """It is not killed, and who waits for it is told."""
    rounds = chance.choice([f"{ENDLESS},{SHORT}", f"{SHORT},{ENDLESS}"])
    return Job(folder, engine, rounds, stdout=subprocess.DEVNULL).end(1, "in its last barrier")


def child_of_a_rank_uses_the_plugin(folder, engine, chance):
    """It is alone, and ends no job."""
    child = {"CHILD": "import mindnlp_dp_plugin as dp; assert dp.all_gather_object(5) == [5]"}
    return Job(folder, engine, SHORT, env=child, stdout=subprocess.DEVNULL).end(0, "all ranks are done")


def ranks_leave_at_once(folder, engine, chance):
    """With status 0, when all are done."""
    env = {"LAST": f"time.sleep({chance.uniform(0, 2)} * RANK); os._exit(0)"}
    return Job(folder, engine, SHORT, env=env, stdout=subprocess.DEVNULL).end(0, "all ranks are done")


ALL = (
    launcher_is_killed, reader_stalls, output_is_full, rank_is_stopped, launcher_is_told_to_stop, launcher_is_stopped,
    logs_are_removed, disk_of_the_logs_is_full, shared_memory_is_small,
    folder_in_shared_memory_is_removed, rank_is_done_early, child_of_a_rank_uses_the_plugin, ranks_leave_at_once,
)  # fmt: skip


def disturb(home, number, chance):
    """One job and one disturbance; what happened."""
    engine = ("mpi", "mccl")[number % 2]
    disturbance = ALL[number // 2 % len(ALL)]
    folder = home / f"disturbed_{number}"
    folder.mkdir()
    try:
        problems = disturbance(folder, engine, chance)
    except RuntimeError as error:
        problems = [str(error)]
    return {"engine": engine, "disturbance": disturbance.__name__, "problems": problems}
