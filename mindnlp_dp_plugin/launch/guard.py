"""A small process that cleans up if its launcher is killed.

The kernel ends the children of a killed launcher, but neither what those have started, nor what is in shared memory.

    python guard.py JOB      # standard input: the job's folders in shared memory, a line each, then its end
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

OVER = "over"
KILL_S = 10
POLL_S = 0.1
NUM_LOOKS = 3  # without finding anybody: a process may be about to start another


class Guard:
    """While entered, a process waits for the death of this one.

    Args:
        job: The job's name, by which its processes are found.
    """

    def __init__(self, job: str):
        self._job = job

    def __enter__(self):
        from mindnlp_dp_plugin.job.variables import DEFERRED
        from mindnlp_dp_plugin.launch.signals import ignore_stop_signals

        self._process = subprocess.Popen(
            [sys.executable, __file__, self._job],
            env={**os.environ, DEFERRED: "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=ignore_stop_signals,  # a batch system may send them to all processes of a job
        )
        return self

    def __exit__(self, *_):
        self._tell(OVER)
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()

    def watch(self, scratch_dir: Path) -> None:
        """Remove this folder, too."""
        self._tell(str(scratch_dir))

    def _tell(self, line):
        with suppress(OSError):  # somebody has ended it
            self._process.stdin.write(os.fsencode(f"{line}\n"))
            self._process.stdin.flush()


def serve(job: str) -> None:
    """Wait for the launcher's end; clean up unless it says that the job is over."""
    folders = []
    for line in sys.stdin.buffer:
        told = os.fsdecode(line).rstrip("\n")
        if told == OVER:
            return
        folders.append(Path(told))
    for folder in folders:
        lock(folder)
    end_processes(job)
    for folder in folders:
        with suppress(Exception):
            remove_partial_checkpoints(folder)
        shutil.rmtree(folder, ignore_errors=True)


def lock(folder: Path) -> None:
    """Keep a new job from removing it as abandoned before it is read. The lock goes with this process."""
    with suppress(OSError):
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX)


def end_processes(job: str) -> None:
    """Kill the processes that have this job's name in their environment."""
    import psutil

    from mindnlp_dp_plugin.job.variables import JOB

    def belongs_to_job(process):
        with suppress(psutil.Error, OSError):
            return process.environ().get(JOB) == job and process.status() != psutil.STATUS_ZOMBIE
        return False

    deadline, num_looks = time.monotonic() + KILL_S, 0
    while num_looks < NUM_LOOKS and time.monotonic() < deadline:
        found = [process for process in psutil.process_iter() if belongs_to_job(process)]
        for process in found:
            with suppress(psutil.Error):
                process.kill()
        num_looks = 0 if found else num_looks + 1
        time.sleep(POLL_S)


def remove_partial_checkpoints(scratch_dir: Path) -> None:
    """Remove what ranks have begun to write."""
    from mindnlp_dp_plugin.checkpoint import store
    from mindnlp_dp_plugin.job.rank_status import noted_saves

    for output_dir in noted_saves(scratch_dir):
        store.clear_leftovers(output_dir)


if __name__ == "__main__":
    # Run as a file, it starts at once; what it needs for cleaning up it imports when the launcher is gone.
    sys.path[0] = str(Path(__file__).parents[2])
    serve(sys.argv[1])
