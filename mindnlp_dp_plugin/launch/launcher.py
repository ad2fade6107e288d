"""Starts the ranks of a job on this host, shows rank 0, and ends all of them when one fails or the user says so."""

import os
import shlex
import socket
import sys
import time
from dataclasses import replace

from mindnlp_dp_plugin.checkpoint.store import clear_leftovers
from mindnlp_dp_plugin.collectives.engines import ENGINES
from mindnlp_dp_plugin.job.error_record import ErrorRecord, rank_log, read_records
from mindnlp_dp_plugin.job.rank_status import Phase, noted_saves, read_status
from mindnlp_dp_plugin.job.variables import DEFERRED, JOB, LOG_DIR, RESTART, STATUS_DIR
from mindnlp_dp_plugin.launch import mindspore_cluster, mpi
from mindnlp_dp_plugin.launch.failures import Death, first_failure, headline, report
from mindnlp_dp_plugin.launch.job import Job, Process, worker_argv
from mindnlp_dp_plugin.launch.logs import Tail, prepare
from mindnlp_dp_plugin.launch.processes import ProcessTree, is_running, start
from mindnlp_dp_plugin.launch.rendezvous.participants import DIED, RAISED, STOPPED, Failure, Hosts
from mindnlp_dp_plugin.launch.rendezvous.server import rendezvous
from mindnlp_dp_plugin.launch.scratch_dir import scratch_dir
from mindnlp_dp_plugin.launch.signals import Signals

POLL_S = 0.03
LOOK_S = 0.25
SHUTDOWN_S = 2  # for ranks to end after one of them has crashed in its shutdown; all have come to their end
NOTICE_S = 1  # mpirun takes 0.3 s to notice a death, and knows the signal
MAX_BACKOFF_S = 30
DEVICE_RELEASE_S = 10  # what Ascend's driver takes to give a device back after a kill


def plan(job: Job) -> list[Process]:
    """The processes of a job on this host."""
    if job.world_size == 1:
        log = rank_log(job.log_dir, 0)
        processes = [Process("rank 0", 0, worker_argv(job.command), {}, log)]
    else:
        starter = mpi if ENGINES[job.backend].needs_mpirun else mindspore_cluster
        processes = starter.processes(job)
    # MindSpore's warnings (cluster set-up, deprecations) would bury the progress bar; its errors are shown.
    log_level = os.environ.get("GLOG_v", "3")  # noqa: SIM112
    common = {
        "GLOG_v": log_level,
        LOG_DIR: str(job.log_dir.absolute()),
        STATUS_DIR: str(job.scratch_dir),
        JOB: job.name,
        RESTART: str(job.restart),
        "MINDNLP_DP_BACKEND": job.backend,
        DEFERRED: "1",
    }
    if job.trace:
        common["MINDNLP_DP_TRACE"] = str(job.log_dir.absolute() / "trace.json")
    return [replace(process, environ={**common, **process.environ}) for process in processes]


def describe(process: Process) -> str:
    """A line a shell would understand."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in process.environ.items()]
    return f"{process.name}: {' '.join(variables)} {shlex.join(process.argv)}"


def launch(job: Job, max_restarts: int = 0) -> int:
    """Runs a job to its end.

    Args:
        job: What to run.
        max_restarts: How often all ranks are started again after one has failed.

    Returns:
        0 if all ranks succeeded; the status of the rank that failed first (128 + number for a signal); 128 + number of
        the signal that stopped the launcher.

    Raises:
        DataParallelError: The log directory cannot be used, or the hosts do not meet.
    """
    with Signals() as signals:
        while True:
            exit_code, last_words = run_once(job, signals)
            sys.stderr.write(last_words)
            if exit_code == 0 or signals.stop or job.restart == max_restarts:
                return exit_code
            delay = backoff(job)
            job = job.again()
            sys.stderr.write(f"mindnlp-dp: restart {job.restart} of {max_restarts} in {delay} s; logs: {job.log_dir}\n")
            if not signals.sleep(delay):
                return 128 + signals.stop


def run_once(job: Job, signals: Signals) -> tuple[int, str]:
    """Starts all ranks and stays until they, and all that they would leave behind, are gone.

    Returns:
        The exit status, and what to tell the user.
    """
    prepare(job.log_dir, job.local_ranks)
    with rendezvous(job, signals) as hosts, scratch_dir() as scratch:
        tree = ProcessTree()
        try:
            return Monitor(replace(job, scratch_dir=scratch), signals, hosts).until_the_end()
        finally:
            tree.end()
            for home in noted_saves(scratch):
                clear_leftovers(home)


def backoff(job: Job) -> int:
    """Seconds to wait before a job that failed is started again."""
    release = DEVICE_RELEASE_S if ENGINES[job.backend].device == "Ascend" else 0
    return min(2**job.restart, MAX_BACKOFF_S) + release


class Monitor:
    """The running processes of a job and what becomes of them."""

    def __init__(self, job: Job, signals: Signals, hosts: Hosts):
        self._job = job
        self._signals = signals
        self._hosts = hosts
        self._failure: Death | ErrorRecord | None = None
        self._tail = Tail(rank_log(job.log_dir, 0)) if job.node_rank == 0 else None
        self._running = [(process, start(process)) for process in plan(job)]
        self._lost_since: dict[int, float] = {}
        self._next_look = 0.0
        self._crash: float | None = None  # when the first rank was seen to have crashed in its shutdown

    def until_the_end(self) -> tuple[int, str]:
        """Shows rank 0 until all ranks are done, one fails on any host, or the launcher is told to stop.

        Returns:
            What ``launch`` returns, and what to tell the user once all processes are gone.
        """
        while True:
            if self._signals.stop:
                return self._stopped()
            are_over = self._are_over()  # asked first: who ends in between is looked at in the next round
            if self._failure is None and (deaths := self._deaths()):
                self._note(deaths)
            if first := self._hosts.first_failure():
                return self._failed(first)
            self._show()
            if are_over and not self._failure and self._hosts.are_all_done():
                return 0, f"mindnlp-dp: all ranks are done; logs: {self._job.log_dir}\n"
            self._signals.wait(POLL_S)

    def _deaths(self) -> list[Death]:
        deaths = [
            Death(process.name, process.rank, popen.returncode, process.log)
            for process, popen in self._running
            if popen.poll() and not self._crashed_in_shutdown(process.rank, popen.returncode)
        ]
        return deaths or self._unnoticed_deaths()

    def _unnoticed_deaths(self) -> list[Death]:
        """Ranks that failed or left before all had come to the end of the script, unseen by mpirun or with status 0.

        Open MPI 5.0 may miss a rank that dies while others initialise MPI, and then takes memory for ever.
        """
        now = time.monotonic()
        is_over = all(popen.poll() is not None for _, popen in self._running)
        if now < self._next_look and not is_over:
            return []
        self._next_look = now + LOOK_S
        lost = {rank for rank in self._job.local_ranks if self._is_lost(rank)}
        if is_over and len(lost) == self._job.nproc and not self._records():
            return []  # they all left by os._exit(0), and nobody needed anybody
        self._lost_since = {rank: self._lost_since.get(rank, now) for rank in lost}
        delay = 0 if is_over else NOTICE_S
        return [
            Death(f"rank {rank}", rank, 0, rank_log(self._job.log_dir, rank))
            for rank, since in self._lost_since.items()
            if now - since >= delay
        ]

    def _crashed_in_shutdown(self, rank: int | None, returncode: int) -> bool:
        """Whether it is a rank that a signal ended when all had come to their end: MindSpore's cluster may crash then.

        Nothing is lost but the scheduler's patience: it, and the other ranks, would wait for this one.
        """
        if rank is None:
            return self._crash is not None
        status = read_status(self._job.scratch_dir, rank) if returncode < 0 else None
        if status is None or status.phase != Phase.DONE:
            return False
        self._crash = self._crash or time.monotonic()
        return True

    def _is_lost(self, rank: int) -> bool:
        status = read_status(self._job.scratch_dir, rank)
        return status is not None and status.phase != Phase.DONE and not is_running(status.pid)

    def _are_over(self) -> bool:
        """Whether all have ended. The scheduler follows the ranks, five seconds later, and other hosts may need it."""
        if self._crash and time.monotonic() - self._crash > SHUTDOWN_S:
            return True
        return all(popen.poll() is not None for process, popen in self._running if process.name != "scheduler")

    def _show(self) -> None:
        """Shows what rank 0 wrote, but once a rank has failed nothing more: its traceback is to be seen first."""
        if self._tail:
            end = self._tail.size()  # taken before the look at the records, which are written before tracebacks
            if not self._records():
                self._tail.pump(end)

    def _records(self) -> dict[int, ErrorRecord]:
        return read_records(self._job.log_dir, self._job.local_ranks)

    def _stopped(self) -> tuple[int, str]:
        exit_code, signal = 128 + self._signals.stop, self._signals.stop.name
        words = f"stopped by {signal} on host {self._job.node_rank} ({socket.gethostname()})"
        self._hosts.say_stopped(Failure(self._job.node_rank, words, exit_code, STOPPED))
        return exit_code, f"mindnlp-dp: stopped by {signal}, all ranks were ended; logs: {self._job.log_dir}\n"

    def _note(self, deaths: list[Death]) -> None:
        """Notes which failure was the first on this host, and tells the other hosts."""
        self._failure = failure = first_failure([self._named(death) for death in deaths], self._records())
        has_raised = isinstance(failure, ErrorRecord)
        seconds_ago = (time.time_ns() - failure.time_ns) / 1e9 if has_raised else 0.0
        kind = RAISED if has_raised else DIED
        words = f"{headline(failure)}; host {self._job.node_rank} shows more"
        self._hosts.report(Failure(self._job.node_rank, words, failure.exit_code, kind, seconds_ago))

    def _failed(self, first: Failure) -> tuple[int, str]:
        failure = self._failure
        if first.node_rank != self._job.node_rank:
            return first.exit_code, f"mindnlp-dp: {first.words}. All ranks here were ended; logs: {self._job.log_dir}\n"
        if isinstance(failure, ErrorRecord):
            if failure.rank == 0:
                self._tail.pump(failure.log_bytes)
            log = rank_log(self._job.log_dir, failure.rank)
        else:
            log = failure.log
        return failure.exit_code, report(failure, log)

    def _named(self, death: Death) -> Death:
        """The rank that mpirun blames, in the place of mpirun."""
        if death.name != "mpirun":
            return death
        blamed = mpi.first_to_end(death.log.read_text(encoding="utf-8", errors="replace"))
        if blamed is None:
            return death
        rank, returncode = blamed
        return Death(f"rank {rank}", rank, returncode, rank_log(self._job.log_dir, rank))
