"""Launch a job as a child process, of a notebook's kernel or of the doctor: a signal ends all of it.

python -m mindnlp_dp_plugin.launch.child      # standard input: [command, nproc, backend, log_dir] in JSON
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.signals import end_with_parent
from mindnlp_dp_plugin.job.variables import DEFERRED
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.launcher import launch
from mindnlp_dp_plugin.launch.signals import Interrupted


def start(command: list[str], nproc: int, backend: str, log_dir: Path, **pipes) -> tuple[subprocess.Popen, bytes]:
    """Start the process, which waits for its job.

    Args:
        command: ``[-m] script args...``
        nproc: Number of ranks.
        backend: Their engine.
        log_dir: The folder for logs.
        pipes: What ``subprocess.Popen`` takes.

    Returns:
        The process, and what to write to its standard input.
    """
    argv = [sys.executable, "-m", __name__]
    child = subprocess.Popen(argv, env={**os.environ, DEFERRED: "1"}, stdin=subprocess.PIPE, **pipes)
    return child, json.dumps([command, nproc, backend, str(log_dir)]).encode()


def main(command: list[str], nproc: int, backend: str, log_dir: str) -> int:
    """Run the job to its end; returns the exit status of the launcher."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a kernel may ignore it, and so would this process
    end_with_parent(signal.SIGINT)
    try:
        return launch(Job(command, nproc, backend, Path(log_dir)))
    except Interrupted:
        return 128 + signal.SIGINT
    except DataParallelError as error:
        sys.exit(f"mindnlp-dp: {error}")


if __name__ == "__main__":
    if asked := sys.stdin.read():  # nothing, if the kernel was interrupted before it could ask
        sys.exit(main(*json.loads(asked)))
