"""Watch the processes of a job, and decide how it ends."""

import signal
import time
from dataclasses import replace

from mindnlp_dp_plugin.job.error_record import ErrorRecord, read_records
from mindnlp_dp_plugin.job.rank_status import Phase, Status, read_status, send_signal
from mindnlp_dp_plugin.job.signals import PREEMPTING
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch import mpi
from mindnlp_dp_plugin.launch.deadlines import late_to_join
from mindnlp_dp_plugin.launch.ending import Ending, death, first_failure, report
from mindnlp_dp_plugin.launch.job import Job, Process
from mindnlp_dp_plugin.launch.logs import end_of
from mindnlp_dp_plugin.launch.processes import is_running, reap_orphans, returncode_of_zombie, start
from mindnlp_dp_plugin.launch.signals import POLL_S, Signals, seconds_of_grace
from mindnlp_dp_plugin.launch.terminal import View, tell, tell_note

LOOK_S = 0.25
SHUTDOWN_S = 2  # for ranks to end after one of them has crashed in its shutdown; all have come to their end
NOTICE_S = 1  # mpirun takes 0.3 s to notice a death, and knows the signal
LAST_LOOK_S = 0.3  # for whoever reads the output, after a stop signal
READER_S = 2  # for whoever reads the output, after a failure; logs have it all


class Monitor:
    """The running processes of a job."""

    def __init__(self, job: Job, processes: list[Process], signals: Signals):
        self._job = job
        self._signals = signals
        self._view = View(job.log_dir, [*job.ranks] if job.tee == "all" else [0])
        self._began = time.monotonic()
        self._running = [(process, start(process)) for process in processes]
        self._words_of_mpirun = next((each.log.open("rb") for each in processes if each.name == "mpirun"), None)
        self._has_told_of_output = self._has_told_of_folder = False
        self._lost: dict[int, tuple[float, int]] = {}  # since when, and how they ended as far as is known
        self._next_look = 0.0
        self._crash: float | None = None  # when the first rank was seen to have crashed in its shutdown
        self._grace_ends: float | None = None

    def until_the_end(self) -> Ending:
        """Show rank 0 until all ranks are done, one fails, or the launcher is told to stop."""
        try:
            while True:
                are_over = self._are_over()  # asked first: who ends in between is looked at in the next round
                if self._signals.stop:
                    if not self._has_time(are_over):
                        return self._stopped()
                elif failure := self._failure(are_over):
                    return self._failed(failure)
                self._show()
                if are_over:
                    self._view.show_all(self._view.sizes(), float("inf"), unless=self._signals)
                    words = tr("all ranks are done; logs: {logs}", logs=self._job.log_dir)
                    return Ending(0, f"mindnlp-dp: {words}\n")
                time.sleep(POLL_S)
        finally:
            for process, popen in self._running:
                if process.outlives_preemption:  # so it ignores SIGTERM
                    popen.kill()

    def _has_time(self, are_over: bool) -> bool:
        """After a stop signal: whether the ranks are still to end by themselves. They are sent the signal first."""
        now = time.monotonic()
        if self._grace_ends is None:
            is_asked = self._signals.stop in PREEMPTING and self._forward(self._signals.stop)
            has = seconds_of_grace(self._job.grace, self._signals.stop) if is_asked else 0
            self._grace_ends = now + has
        if now >= self._grace_ends or self._signals.is_urgent:
            return False
        ended = [popen.returncode for _, popen in self._running if popen.poll() is not None]
        # Who has no handler was killed by the signal, and the others can do nothing without it.
        return not any(ended) if are_over else not any(returncode < 0 for returncode in ended)

    def _forward(self, signum: signal.Signals) -> bool:
        """Send a signal to each rank, if all have begun."""
        statuses = self._statuses().values()
        if not all(statuses):
            return False
        for status in statuses:
            send_signal(status, signum)
        return True

    def _failure(self, are_over: bool) -> ErrorRecord | None:
        """The first failure, if there is one."""
        missed, now = None, time.monotonic()
        deaths = [
            self._death(process, popen.returncode)
            for process, popen in self._running
            if popen.poll() and not self._crashed_in_shutdown(process.rank, popen.returncode)
        ]
        if not deaths and (are_over or now >= self._next_look):
            self._next_look = now + LOOK_S
            statuses = self._statuses()
            deaths = self._unnoticed_deaths(statuses, now, are_over)
            if not deaths and not are_over:
                reap_orphans({popen.pid for _, popen in self._running})
                self._tell_of_folder()
                missed = late_to_join(self._job, statuses, self._began) if self._job.nproc > 1 else None
        records = self._records() if deaths or missed else {}
        return first_failure(deaths, records) if deaths else next(iter(records.values()), missed)

    def _unnoticed_deaths(self, statuses: dict[int, Status | None], now: float, are_over: bool) -> list[ErrorRecord]:
        """Ranks that failed unnoticed by mpirun, or left by ``os._exit(0)`` while another waits for them.

        Open MPI 5.0 may miss a rank that dies while others initialise MPI, and then allocates memory without end.
        """
        begun = {rank: status for rank, status in statuses.items() if status}
        lost = {rank: each for rank, each in begun.items() if each.phase != Phase.DONE and not is_running(each.pid)}
        others = [status for rank, status in begun.items() if rank not in lost]
        is_needed = any(each.phase == Phase.WAITING and now - each.since > NOTICE_S for each in others)
        self._lost = {
            rank: self._lost.get(rank) or (now, returncode_of_zombie(each.pid) or 0) for rank, each in lost.items()
        }
        delay = 0 if are_over else NOTICE_S
        return [
            death(f"rank {rank}", rank, returncode)
            for rank, (since, returncode) in self._lost.items()
            if now - since >= delay and (returncode or is_needed)
        ]

    def _crashed_in_shutdown(self, rank: int | None, returncode: int) -> bool:
        """Whether a signal ended a rank after all had finished: MindSpore's cluster may crash then.

        Nothing is lost, but the scheduler and the other ranks would wait for this rank.
        """
        if rank is None:
            return self._crash is not None
        status = read_status(self._job.scratch_dir, rank) if returncode < 0 else None
        if status is None or status.phase != Phase.DONE:
            return False
        self._crash = self._crash or time.monotonic()
        return True

    def _are_over(self) -> bool:
        """Whether all ranks have ended: the scheduler ends five seconds after them."""
        if self._crash and time.monotonic() - self._crash > SHUTDOWN_S:
            return True
        return all(popen.poll() is not None for process, popen in self._running if process.name != "scheduler")

    def _show(self) -> None:
        """Show what rank 0 wrote; nothing more once a rank has failed, so that its traceback comes first."""
        ends = self._view.sizes()  # taken before the look at the records, which are written before tracebacks
        if not self._records():
            self._view.show(ends)
        if self._view.error and not self._has_told_of_output:
            self._has_told_of_output = True
            why = self._view.error.strerror
            tell(tr("cannot show more ({why}); the job goes on; logs: {logs}", why=why, logs=self._job.log_dir))

    def _tell_of_folder(self) -> None:
        """Ranks need their shared folder no more once they run; but who removed it may remove more."""
        if not self._has_told_of_folder and not self._job.scratch_dir.is_dir():
            self._has_told_of_folder = True
            tell_note(
                tr(
                    "somebody has removed {folder}, the job's own folder: the job goes on, but shows no stacks if "
                    "ranks hang (systemd removes a user's shared memory at logout: loginctl enable-linger)",
                    folder=self._job.scratch_dir,
                )
            )

    def _records(self) -> dict[int, ErrorRecord]:
        return read_records(self._job.log_dir, self._job.ranks)

    def _statuses(self) -> dict[int, Status | None]:
        return {rank: read_status(self._job.scratch_dir, rank) for rank in self._job.ranks}

    def _stopped(self) -> Ending:
        self._view.show_all(self._view.sizes(), LAST_LOOK_S)
        preempted = next((each for each in self._records().values() if each.was_stopped), None)
        said = tr("stopped by {signal}, all ranks were ended", signal=self._signals.stop.name)
        words = tr("{how}; logs: {logs}", how=preempted.message if preempted else said, logs=self._job.log_dir)
        return Ending(128 + self._signals.stop, f"mindnlp-dp: {words}\n", was_stopped=True)

    def _failed(self, failure: ErrorRecord) -> Ending:
        step = max((status.step for status in self._statuses().values() if status), default=0) or None
        failure = replace(failure, step=step)
        if failure.was_stopped:
            self._view.show_all(self._view.sizes(), LAST_LOOK_S)
            words = tr("{words}. All ranks were ended; logs: {logs}", words=failure.message, logs=self._job.log_dir)
            return Ending(failure.exit_code, f"mindnlp-dp: {words}\n", failure, was_stopped=True)
        ends = self._view.sizes() if failure.kind else {}
        if failure.rank in ends:
            ends[failure.rank] = failure.log_bytes
        self._view.show_all(ends, READER_S, unless=self._signals)
        return Ending(failure.exit_code, report(failure, failure.log(self._job.log_dir)), failure)

    def _death(self, process: Process, returncode: int) -> ErrorRecord:
        """That of a process; of the rank that mpirun reports, instead of mpirun."""
        if process.name != "mpirun":
            return death(process.name, process.rank, returncode)
        blamed = mpi.first_to_end(end_of(self._words_of_mpirun).decode(errors="replace"))
        rank, returncode = blamed or (self._first_to_fail(), returncode)
        return death(process.name if rank is None else f"rank {rank}", rank, returncode)

    def _first_to_fail(self) -> int | None:
        """The first rank that ended with an exception, though it could not write why."""
        failed = {rank: each.since for rank, each in self._statuses().items() if each and each.phase == Phase.FAILED}
        return min(failed, key=failed.get, default=None)
