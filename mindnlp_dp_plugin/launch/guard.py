"""A small process that cleans up if its launcher is killed.

The kernel ends the children of a killed launcher, but neither what those have started, nor what is in shared memory.

    python guard.py JOB FOLDER      # standard input: open as long as the launcher lives
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KILL_S = 10
POLL_S = 0.1
NUM_LOOKS = 3  # without finding anybody: a process may be about to start another


@contextmanager
def guarded(job: str, folder: Path) -> Iterator[None]:
    """While entered, a process waits for the death of this one.

    Args:
        job: The job's name, by which its processes are found.
        folder: The job's folder in shared memory, which goes with it.
    """
    from mindnlp_dp_plugin.job.variables import DEFERRED
    from mindnlp_dp_plugin.launch.signals import ignore_stop_signals

    with subprocess.Popen(
        [sys.executable, __file__, job, folder],
        env={**os.environ, DEFERRED: "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=ignore_stop_signals,  # a batch system may send them to all processes of a job
    ) as guard:
        try:
            yield
        finally:
            guard.kill()


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


if __name__ == "__main__":
    # Run as a file, it starts at once; what it needs for cleaning up it imports when the launcher is gone.
    sys.path[0] = str(Path(__file__).parents[2])
    sys.stdin.buffer.read()
    end_processes(sys.argv[1])
    with suppress(Exception):
        from mindnlp_dp_plugin.checkpoint import store
        from mindnlp_dp_plugin.job.rank_status import SAVES, noted

        for output_dir in {each for start in Path(sys.argv[2]).iterdir() for each in noted(start, SAVES)}:
            store.clear_leftovers(output_dir)
    shutil.rmtree(sys.argv[2], ignore_errors=True)
