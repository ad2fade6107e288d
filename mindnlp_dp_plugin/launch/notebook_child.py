"""Launch the job of ``dp.notebook_launcher``, as a child process of a notebook's kernel: a signal ends all of it.

python -m mindnlp_dp_plugin.launch.notebook_child      # standard input: [nproc, backend, log_dir, folder] in JSON
"""

import json
import signal
import sys
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.signals import end_with_parent
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.launcher import launch
from mindnlp_dp_plugin.launch.ports import free_port
from mindnlp_dp_plugin.launch.signals import Interrupted

RANK = "mindnlp_dp_plugin.runtime.notebook_rank"


def main(nproc: int, backend: str, log_dir: str, folder: str) -> int:
    """Run the job to its end; returns the exit status of the launcher."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a kernel may ignore it, and so would this process
    end_with_parent(signal.SIGINT)
    try:
        return launch(Job(["-m", RANK, folder], nproc, backend, Path(log_dir), master_port=free_port()))
    except Interrupted:
        return 128 + signal.SIGINT
    except DataParallelError as error:
        sys.exit(f"mindnlp-dp: {error}")


if __name__ == "__main__":
    if asked := sys.stdin.read():  # nothing, if the kernel was interrupted before it could ask
        sys.exit(main(*json.loads(asked)))
