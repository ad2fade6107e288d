"""A rank of ``mindnlp-dp run``: ``python -m mindnlp_dp_plugin.runtime.worker [-m] script args...``.

Pins the process, installs the plugin, runs the script as ``python script args...`` would, and records why it failed.
"""

import json
import os
import runpy
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path

from mindnlp_dp_plugin.config import DataParallelConfig
from mindnlp_dp_plugin.errors import Preempted
from mindnlp_dp_plugin.job.environments import detect
from mindnlp_dp_plugin.job.error_record import format_error, rank_log, write_record
from mindnlp_dp_plugin.job.hardware import allowed_cores
from mindnlp_dp_plugin.job.rank_process import become_rank, folder_told
from mindnlp_dp_plugin.job.rank_status import show_status
from mindnlp_dp_plugin.job.variables import DEFERRED, LOG_DIR
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.runtime import cpu_affinity, leaving
from mindnlp_dp_plugin.runtime.executing import leave_in_order, stay_rank

THREAD_S = 5  # for threads that a script leaves to end by themselves
RUNPY = (runpy.__file__, "<frozen runpy>")

OF_THE_RUNNER = (__file__, str(Path(__file__).with_name("notebook_rank.py")), *RUNPY)


def main(argv: list[str]) -> None:
    """Run one rank; a failure ends this process here.

    Args:
        argv: ``[-m] script args...``
    """
    rank_info, process = detect(), os.getpid()
    become_rank(has_joined=False)
    log_dir = folder_told(LOG_DIR)
    if rank_info.launcher == "mpirun" and log_dir:
        send_output_to(rank_log(log_dir, rank_info.rank))
    try:
        show_status(rank_info.rank)
        os.environ.update(rank_info.for_scripts())
        install(rank_info)
        stay_rank()
        leave_in_order()
        run_script(argv)
        if os.getpid() != process:
            end_fork()
        wait_for_all()
        tell_of_thread(rank_info.rank)
    except Preempted as error:
        wait_for_all()  # mpirun ends the others as soon as one has left
        error.__traceback__ = None
        end_as_failed(rank_info.rank, error)
    except BaseException as error:
        if os.getpid() != process:
            end_fork(error)
        end_as_failed(rank_info.rank, error)


def send_output_to(path: Path) -> None:
    """Append standard output and error, also of native code, to a file."""
    log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)


def install(rank_info) -> None:
    """Pin this rank to its cores, then install the plugin, which joins the ranks and loads MindSpore."""
    if cpu_affinity.is_wanted(DataParallelConfig.from_env()):
        cpu_affinity.pin(rank_info, allowed_cores(), os.environ)
    os.environ.pop(DEFERRED, None)
    import mindnlp_dp_plugin

    mindnlp_dp_plugin.install()


def run_script(argv: list[str]) -> None:
    """Run ``script args...`` or ``-m module args...`` as Python would, with its ``sys.path`` and ``sys.argv``."""
    if argv[0] == "--json":
        argv = json.loads(argv[1])
    try:
        if argv[0] == "-m":
            sys.argv = argv[1:]
            sys.path[0] = os.getcwd()
            runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = argv
            sys.path[0] = os.path.dirname(os.path.realpath(argv[0]))
            runpy.run_path(argv[0], run_name="__main__")
    except SystemExit as error:
        if exit_code_of(error):
            raise
    except IndexError as error:
        # runpy puts sys.argv[0] back, which fails if the script has emptied the list; the script's own end counts.
        if traceback.extract_tb(error.__traceback__)[-1].filename not in RUNPY:
            raise
        ended = error.__context__
        if ended and exit_code_of(ended):
            raise ended.with_traceback(ended.__traceback__) from None


def wait_for_all() -> None:
    """Wait for all ranks: if one leaves while a peer is in its last collective, the peer fails."""
    from mindnlp_dp_plugin import collectives

    collectives.shutdown()


def tell_of_thread(rank: int) -> None:
    """Name a thread that keeps this process alive for some seconds though the script is done."""
    others = (each for each in threading.enumerate() if each is not threading.main_thread() and not each.daemon)
    if thread := next(others, None):
        words = tr(
            "rank {rank} is at the end of its script and waits for its thread {thread!r}: end it in the script, or "
            "make it a daemon",
            rank=rank,
            thread=thread.name,
        )
        teller = threading.Timer(THREAD_S, os.write, (2, f"mindnlp-dp: {words}\n".encode(errors="replace")))
        teller.daemon = True
        teller.start()


def exit_code_of(error: BaseException) -> int:
    """The exit status that Python would give this exception: 0 for ``sys.exit()``, 1 unless it has a number."""
    return leaving.status_of(error.code) if isinstance(error, SystemExit) else 1


def end_as_failed(rank: int, error: BaseException) -> None:
    """Write the error record and the traceback, and end at once: Python's own exit waits for the peers in MPI.

    Nothing may prevent the end: the disk may be full, standard error closed, the exception itself broken.
    """
    try:
        with suppress(Exception):
            show_status(rank).fail()
        error.__traceback__ = without_runner(error.__traceback__)
        try:
            write_record(folder_told(LOG_DIR), rank, error, exit_code_of(error))
        finally:
            with suppress(Exception):
                sys.stdout.flush()  # unbuffered, unless the script has put another in its place
            os.write(2, format_error(error).encode(errors="replace"))
    finally:
        os._exit(exit_code_of(error))


def end_fork(error: BaseException | None = None) -> None:
    """End a process that the script has forked, as Python would, but for clean-up: that is for the rank to do."""
    try:
        if isinstance(error, SystemExit):
            words = "" if isinstance(error.code, int | None) else f"{error.code}\n"
            os.write(2, words.encode(errors="replace"))
        elif error is not None:
            error.__traceback__ = without_runner(error.__traceback__)
            os.write(2, format_error(error).encode(errors="replace"))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(0 if error is None else exit_code_of(error))


def without_runner(trace):
    """The traceback from the first frame of the user's code on."""
    while trace and trace.tb_frame.f_code.co_filename in OF_THE_RUNNER:
        trace = trace.tb_next
    return trace


if __name__ == "__main__":
    main(sys.argv[1:])
