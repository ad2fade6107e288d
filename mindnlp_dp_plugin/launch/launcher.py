"""Start the ranks of a job, and end all of them when one fails or the user stops the job."""

import os
import shlex
import shutil
import signal
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from mindnlp_dp_plugin.checkpoint import store
from mindnlp_dp_plugin.checkpoint.environment import environment
from mindnlp_dp_plugin.collectives.engines import ENGINES
from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.job.error_record import rank_log
from mindnlp_dp_plugin.job.hardware import usable_cores
from mindnlp_dp_plugin.job.rank_status import SAVES, TRAINING, noted
from mindnlp_dp_plugin.job.variables import DEFERRED, GOES_ON, JOB, LOG_DIR, RESTART, STATUS_DIR, of_setting
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.launch.backends import require_device, starter
from mindnlp_dp_plugin.launch.ending import Ending
from mindnlp_dp_plugin.launch.guard import guarded
from mindnlp_dp_plugin.launch.job import Job, Process, worker_argv
from mindnlp_dp_plugin.launch.logs import claim, prepare
from mindnlp_dp_plugin.launch.monitor import Monitor
from mindnlp_dp_plugin.launch.ports import LOOPBACK
from mindnlp_dp_plugin.launch.processes import ProcessTree
from mindnlp_dp_plugin.launch.restarts import Restarts
from mindnlp_dp_plugin.launch.scratch_dir import scratch_dir
from mindnlp_dp_plugin.launch.signals import Interrupted, Signals
from mindnlp_dp_plugin.launch.terminal import say, tell, tell_note

MAX_BACKOFF_S = 30
DEVICE_RELEASE_S = 10  # the time Ascend's driver needs to release a device after a kill


def plan(job: Job) -> list[Process]:
    """The processes of a job."""
    if job.nproc == 1:
        log = rank_log(job.log_dir, 0)
        processes = [Process("rank 0", 0, worker_argv(job.command), {}, log)]
    else:
        processes = starter(ENGINES[job.backend]).processes(job)
    # MindSpore's warnings (cluster set-up, deprecations) would bury the progress bar; its errors are shown.
    log_level = os.environ.get("GLOG_v", "3")  # noqa: SIM112
    common = {
        "GLOG_v": log_level,
        JOB: job.name,
        RESTART: str(job.restart),
        of_setting("backend"): job.backend,
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(job.master_port),
        # Sets and dictionaries of texts come in the same order on all ranks.
        "PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", "0"),
        DEFERRED: "1",
    }
    if job.scratch_dir:  # else the ranks of a dry run are on their own
        common |= {LOG_DIR: str(job.log_dir.absolute()), STATUS_DIR: str(job.scratch_dir)}
    if job.max_restarts:
        common[GOES_ON] = "1"
    common |= job.as_settings()
    return [replace(process, environ={**common, **process.environ}) for process in processes]


def describe(process: Process, in_background: bool) -> str:
    """A command line for a shell."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in process.environ.items()]
    background = " &" if in_background else ""
    return f"{' '.join(variables)} {shlex.join(process.argv)}{background}  # {process.name}"


def launch(job: Job) -> int:
    """Run a job to its end.

    It is long because it tells the life of a job in order: its start, its restarts, its end and what is said of it.

    Args:
        job: The job.

    Returns:
        0 if all ranks succeeded; the status of the rank that failed first (128 + number for a signal); 128 + number of
        the signal that stopped the launcher.

    Raises:
        DataParallelError: If the device is missing, or the log directory cannot be used.
        Interrupted: When everything is done after a SIGINT.
    """
    require_device(ENGINES[job.backend])
    began, homes = time.monotonic(), set()
    is_on_cpu, cores = ENGINES[job.backend].device == "CPU", usable_cores()
    with Signals() as signals, claim(job.log_dir), scratch_dir(job.nproc) as scratch, guarded(job.name, scratch):
        if is_on_cpu and job.nproc > cores and DataParallelConfig.from_env().cpu_tuning:
            tell_note(
                tr(
                    "{ranks} ranks share {cores} cores, so they are no faster than {cores} ranks",
                    ranks=job.nproc,
                    cores=cores,
                )
            )
        restarts = Restarts(job.max_restarts)
        ending = run_once(job, signals, homes, scratch)
        while ending.exit_code and not (signals.stop or ending.was_stopped):
            why_not = restarts.why_not(ending.failure)
            if why_not is not None:
                words = f"mindnlp-dp: {tr('no restart: {why}', why=why_not)}\n" if why_not else ""
                ending = replace(ending, words=ending.words + words)
                break
            say(ending.words)
            delay = backoff(job.backend, restarts.used)
            job = job.again()
            tell(tr("{restart} in {seconds} s; logs: {logs}", restart=restarts, seconds=delay, logs=job.log_dir))
            if not signals.sleep(delay):
                ending = Ending(128 + signals.stop, "", was_stopped=True)
                break
            ending = run_once(job, signals, homes, scratch)
        newest = newest_checkpoint(homes, job.name)
        ending.write(
            job.first_log_dir,
            restarts=job.restart,
            last_checkpoint=newest,
            seconds=round(time.monotonic() - began, 3),
            job=job.name,
            command=job.command,
            ranks=job.nproc,
            environment=environment(),
        )
        if ending.exit_code and newest:
            has_ended = store.read_published(newest).get("has_ended")
            hint = tr(
                Message("the newest whole checkpoint is {checkpoint}, of a training that has ended")
                if has_ended
                else Message("the newest whole checkpoint is {checkpoint}: --resume goes on from it"),
                checkpoint=newest,
            )
            ending = replace(ending, words=f"{ending.words}mindnlp-dp: {hint}\n")
        say(ending.words)
    if ending.was_stopped and signals.stop == signal.SIGINT:
        raise Interrupted
    return ending.exit_code


def newest_checkpoint(homes: set[Path], job: str) -> str | None:
    """The whole checkpoint that a job has written last, in any of the given folders."""
    with suppress(Exception):  # whatever has become of the user's folders, the result is written
        found = [each for home in homes for each in store.published_in(home)]
        written = [path for path, content in found if content and content.get("job") == job]
        written.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
        return next((str(path) for path in written if not store.problem_of_files(path)), None)
    return None


def run_once(job: Job, signals: Signals, homes: set[Path], folder: Path) -> Ending:
    """Start all ranks, and return when they and everything they started are gone.

    Args:
        job: The job.
        signals: The user's stop signals.
        homes: Receives the folders in which the ranks write checkpoints.
        folder: The job's private folder; what is in it goes when the ranks are gone.

    Returns:
        How it ended.
    """
    prepare(job.log_dir, job.ranks)
    tree, training = ProcessTree(), None
    scratch = folder / str(job.restart)
    scratch.mkdir(0o700, parents=True)  # somebody may have removed the folder
    try:
        job = replace(job, scratch_dir=scratch)
        ending = Monitor(job, plan(job), signals).until_the_end()
    finally:
        tree.end()
        with suppress(Exception):  # nothing in cleaning up may change how the job ended
            training = next(reversed(noted(scratch, TRAINING)), None)
            homes |= set(map(Path, noted(scratch, SAVES)))
            for home in homes:
                store.clear_leftovers(home)
            shutil.rmtree(scratch, ignore_errors=True)
    return replace(ending, training=training)


def backoff(backend: str, num_restarts: int) -> float:
    """Seconds to wait before a job that failed is started again.

    Args:
        backend: Its backend.
        num_restarts: The restarts since something was gained, with this one.
    """
    release = DEVICE_RELEASE_S if ENGINES[backend].device == "Ascend" else 0
    return min(2 ** (num_restarts - 1), MAX_BACKOFF_S) + release
