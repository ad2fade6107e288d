"""``dp.notebook_launcher``: the ranks of a function that was written in a notebook.

A kernel has imported and computed this and that, so it is never forked: a child process launches the job, as
``mindnlp-dp run`` does, and its ranks unpickle the function. The kernel shows what comes, and passes an interrupt on.
"""

import codecs
import os
import pickle
import re
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import detect
from mindnlp_dp_plugin.job.variables import JOB
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch import backends
from mindnlp_dp_plugin.launch.child import start
from mindnlp_dp_plugin.launch.logs import default_log_dir, prepare
from mindnlp_dp_plugin.launch.one_machine import require_single_node
from mindnlp_dp_plugin.launch.result import NAME as RESULT
from mindnlp_dp_plugin.launch.sent_call import VALUE, SentCall

RANK = "mindnlp_dp_plugin.runtime.notebook_rank"
PIECE_BYTES = 2**16


def notebook_launcher(function: Callable, args: Sequence = (), nproc: int = 2) -> Any:
    """Call a function on N ranks, from a notebook, and show rank 0's output as it comes.

    The ranks are processes of their own, each with a copy of the function and of what it uses from the notebook.
    Interrupting the cell ends them. Their logs go to ``mindnlp_dp_logs`` as those of ``mindnlp-dp run`` do.

    Args:
        function: What each rank calls; a function of a cell, too.
        args: Its arguments.
        nproc: Number of ranks, all on this machine.

    Returns:
        What the function returned on rank 0.

    Raises:
        DataParallelError: If something cannot be sent to the ranks, or a rank failed: with its traceback.
    """
    _require_usable(function, args, nproc)
    call = SentCall.of(function, tuple(args))
    backend = backends.choose(DataParallelConfig.from_env().backend)
    log_dir = default_log_dir()
    prepare(log_dir, range(nproc))
    with tempfile.TemporaryDirectory(prefix="mindnlp_dp_notebook_") as folder:
        call.save(Path(folder))
        _run(["-m", RANK, folder], nproc, backend, log_dir)
        return pickle.loads(Path(folder, VALUE).read_bytes())


def _require_usable(function, args, nproc):
    if JOB in os.environ or detect().world_size > 1:
        raise DataParallelError(
            "dp.notebook_launcher was called in rank {rank} of a job: call it in a notebook, outside the function that "
            "the ranks run.",
            rank=detect().rank,
        )
    require_single_node("dp.notebook_launcher")
    if not callable(function):
        raise DataParallelError(
            "dp.notebook_launcher calls a function, and {function!r} is none: give its name without brackets, and its "
            "arguments as args=(...).",
            function=function,
        )
    if not isinstance(args, tuple | list):
        raise DataParallelError(
            "args={args!r} is no tuple: give args=({args!r},), with a comma, for a single argument.", args=args
        )
    if isinstance(nproc, bool) or not isinstance(nproc, int) or nproc < 1:
        raise DataParallelError("nproc={nproc!r} is no number of ranks: give 1, 2, ...", nproc=nproc)


def _run(command, nproc, backend, log_dir):
    """Run a job in a child process to its end, whatever ends it.

    Raises:
        DataParallelError: If it failed.
    """
    # Jupyter may interrupt all processes of a kernel; this one is told by the kernel.
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True}
    child, job = start(command, nproc, backend, log_dir, **pipes)
    with child, Output(child, log_dir) as output:
        try:
            child.stdin.write(job)
            child.stdin.close()
            output.show()
        except BaseException:
            child.send_signal(signal.SIGINT)
            output.is_interrupted = True
            try:
                output.show()
            finally:
                child.kill()  # still there only if the user insists: its guard ends the ranks
                sys.stderr.write(output.last_words)
            raise
    if child.returncode:
        raise DataParallelError(_how_it_failed(child.returncode, output.last_words, log_dir))
    sys.stderr.write(output.last_words)


def _how_it_failed(status, last_words, log_dir):
    words = re.sub("(?m)^mindnlp-dp: ", "", last_words).rstrip()
    return words or tr(
        "the launcher ended with status {status} and said no more; logs: {logs}", status=status, logs=log_dir
    )


class Output:
    """What a launcher writes, for the cell of a notebook: progress bars move.

    Args:
        launcher: The process.
        log_dir: The log directory of its job.

    Attributes:
        last_words: What it has said since it wrote how the job ended.
        is_interrupted: Whether it was told to stop, perhaps before it could listen.
    """

    def __init__(self, launcher: subprocess.Popen, log_dir: Path):
        self.last_words = ""
        self.is_interrupted = False
        self._result = log_dir / RESULT
        self._selector = selectors.DefaultSelector()
        for pipe, show in ((launcher.stdout, self._show_output), (launcher.stderr, self._show_words)):
            decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
            self._selector.register(pipe, selectors.EVENT_READ, (decoder, show))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._selector.close()

    def show(self) -> None:
        """Show everything until the launcher has ended, but for its last words."""
        while self._selector.get_map():
            for key, _ in self._selector.select():
                decoder, show = key.data
                piece = os.read(key.fd, PIECE_BYTES)
                if not piece:
                    self._selector.unregister(key.fileobj)
                show(decoder.decode(piece, final=not piece))

    def _show_output(self, text):
        sys.stdout.write(text)
        sys.stdout.flush()

    def _show_words(self, text):
        if self._result.exists():
            self.last_words += text
        elif not self.is_interrupted:
            sys.stderr.write(text)
            sys.stderr.flush()
