"""``dp.notebook_launcher``: the ranks of a function that was written in a notebook.

A kernel has imported and computed this and that, so it is never forked: ``mindnlp-dp run`` is a child process,
and its ranks unpickle the function. The kernel shows what comes, and passes an interrupt on.
"""

import codecs
import importlib.util
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

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.environments import detect
from mindnlp_dp_plugin.job.signals import end_with_parent
from mindnlp_dp_plugin.job.variables import JOB
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.logs import RESULT, default_log_dir
from mindnlp_dp_plugin.launch.one_machine import require_single_node
from mindnlp_dp_plugin.launch.sent_call import VALUE, send

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

    Examples:
        >>> scores = dp.notebook_launcher(train, args=(3,), nproc=2)
    """
    _require_usable(function, args, nproc)
    with tempfile.TemporaryDirectory(prefix="mindnlp_dp_notebook_") as folder:
        send(function, tuple(args), Path(folder))
        _run(["-m", RANK, folder], nproc)
        return pickle.loads(Path(folder, VALUE).read_bytes())


def _require_usable(function, args, nproc):
    if JOB in os.environ or detect().world_size > 1:
        raise DataParallelError(
            "dp.notebook_launcher was called in rank {rank} of a job: call it in a notebook, outside the function that "
            "the ranks run.",
            rank=detect().rank,
        )
    require_single_node("dp.notebook_launcher")
    if importlib.util.find_spec("cloudpickle") is None:
        raise DataParallelError(
            "dp.notebook_launcher needs cloudpickle, which is not installed: pip install 'mindnlp-dp-plugin[notebook]'."
        )
    if not callable(function):
        raise DataParallelError(
            "dp.notebook_launcher calls a function, and {function!r} is not one: give the name of a function without "
            "brackets, and its arguments as args=(...).",
            function=function,
        )
    if not isinstance(args, tuple | list):
        raise DataParallelError(
            "args={args!r} is not a tuple: give args=({args!r},), with a comma, for a single argument.", args=args
        )
    if isinstance(nproc, bool) or not isinstance(nproc, int) or nproc < 1:
        raise DataParallelError("nproc={nproc!r} is not a number of ranks: give 1, 2, ...", nproc=nproc)


def _run(command, nproc):
    """Run a job in a child process to its end, whatever ends it.

    Raises:
        DataParallelError: If it failed.
    """
    log_dir = default_log_dir()
    launcher = _start(["--nproc", str(nproc), "--log-dir", str(log_dir), *command])
    words, last_words, is_interrupted = [], [], False

    def hear(text):
        words.append(text)
        if (log_dir / RESULT).exists():  # how it ended is said last
            last_words.append(text)
        elif not is_interrupted:
            sys.stderr.write(text)
            sys.stderr.flush()

    with launcher:
        try:
            _show(launcher, hear)
        except BaseException:
            launcher.send_signal(signal.SIGINT)
            is_interrupted = True  # perhaps before it could listen
            try:
                _show(launcher, hear)
            finally:
                launcher.kill()  # still there only if the user insists: its guard ends the ranks
                sys.stderr.write("".join(last_words))
            raise
    if launcher.returncode:
        said = re.sub("(?m)^mindnlp-dp: ", "", "".join(last_words or words)).rstrip()
        status = tr("the launcher ended with status {status}; logs: {logs}", status=launcher.returncode, logs=log_dir)
        raise DataParallelError(said or status)
    sys.stderr.write("".join(last_words))


def _start(options):
    # Jupyter may interrupt all processes of a kernel; this one is told by the kernel.
    return subprocess.Popen(
        [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_heed_the_kernel,
    )


def _heed_the_kernel():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a kernel may ignore it, and so would this process
    end_with_parent(signal.SIGINT)


def _show(launcher, hear):
    """Show what a launcher writes as it comes, progress bars, too, until it has ended; ``hear`` gets its words."""

    def show(text):
        sys.stdout.write(text)
        sys.stdout.flush()

    with selectors.DefaultSelector() as selector:
        for pipe, take in ((launcher.stdout, show), (launcher.stderr, hear)):
            selector.register(pipe, selectors.EVENT_READ, (codecs.getincrementaldecoder("utf-8")("replace"), take))
        while selector.get_map():
            for key, _ in selector.select():
                decoder, take = key.data
                piece = os.read(key.fd, PIECE_BYTES)
                if not piece:
                    selector.unregister(key.fileobj)
                take(decoder.decode(piece, final=not piece))
