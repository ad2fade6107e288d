"""Let ranks of other launchers end at once if they fail, or leave MindSpore's cluster together.

Without it, under plain mpirun, msrun, srun and torchrun:

- a rank that fails waits in the clean-up of MindSpore or of MPI for peers that wait for it, until the timeout;
- a rank that leaves MindSpore's cluster early, even just after a collective, drops data that a peer has yet to receive;
- a child that the script forks takes part in that clean-up when it ends, and hangs.

``mindnlp-dp run`` takes care of this itself. Python tells nobody with which status it ends, so whoever may end it with
another than 0 notes it here: an exception that nobody catches, and ``sys.exit``, unless the script catches it.
"""

import atexit
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.collectives.wakeups import stop_preemption
from mindnlp_dp_plugin.errors import DataParallelError

FLUSH_S = 1  # for MindSpore's threads to send the rest of the last barrier
RAY_WORKER = "default_worker.py"  # what Ray starts its workers with

_status = 0


def leave_together() -> None:
    """Let this process wait at its end for all ranks. Call it before ``end_at_once_if_failed``."""
    atexit.register(_leave)


def end_at_once_if_failed() -> None:
    """Let this process skip all clean-up if an exception or ``sys.exit`` ends it with another status than 0."""
    hook, leave = sys.excepthook, sys.exit

    def note_exception(*args):
        _note(1)
        hook(*args)

    def leave_with_note(status=None, /):
        if threading.current_thread() is threading.main_thread():
            raise _NotedExit(status)
        leave(status)

    sys.excepthook, sys.exit = note_exception, leave_with_note
    atexit.register(_end_if_failed)
    os.register_at_fork(after_in_child=lambda: atexit.register(_end_at_once))  # the last to come, so the first to go


def end_as_worker_of_ray() -> bool:
    """Let an actor of Ray skip all clean-up; returns whether this process is one.

    Ray first kills what a worker has started, and with it MindSpore's scheduler, of which rank 0 and its peers would
    then take 20 s to take leave. An actor ends when its owner lets go of it: its status tells nobody anything.
    """
    is_worker = Path(getattr(sys.modules["__main__"], "__file__", None) or "").name == RAY_WORKER
    if is_worker:
        atexit.register(_end_at_once)
    return is_worker


class _NotedExit(SystemExit):
    """Notes its status if it ends the process: then Python itself asks for it, from no frame.

    Noted in ``sys.exit`` already, a ``SystemExit`` that the script catches would end the job as failed.
    """

    @property
    def code(self):
        status = super().code
        if sys._getframe().f_back is None:
            _note(status_of(status))
        return status


def status_of(code: object) -> int:
    """The exit status that Python gives the ``code`` of a ``SystemExit``."""
    if code is None:
        return 0
    return code & 0xFF if isinstance(code, int) else 1


def _note(status):
    global _status
    _status = status


def _end_if_failed():
    if _status:
        _end_at_once()


def _end_at_once():
    """Also a forked child, which would take part in the rank's clean-up, and wait for all ranks."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(_status)


def _leave():
    try:
        collectives.shutdown()
    except DataParallelError as error:  # Python would go on, and end with 0
        sys.stderr.write(f"DataParallelError: {error}\n")
        _note(1)
        _end_at_once()
    time.sleep(FLUSH_S)
    stop_preemption()
