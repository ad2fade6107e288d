"""Let ranks of other launchers end at once if they fail, or leave MindSpore's cluster together.

A rank that fails would wait in the clean-up of MindSpore or of MPI for peers that wait for it. A rank that leaves
MindSpore's cluster early, even just after a collective, may drop data that a peer has yet to receive; MPI waits for all
by itself. ``mindnlp-dp run`` takes care of both.
"""

import atexit
import os
import sys
import threading
import time
from contextlib import suppress

from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.collectives.wakeups import stop_preemption

FLUSH_S = 1  # for MindSpore's threads to send the rest of the last barrier

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


class _NotedExit(SystemExit):
    """Notes its status if it ends the process: then Python itself asks for it, and not code that has caught it."""

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
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(_status)


def _leave():
    collectives.shutdown()
    time.sleep(FLUSH_S)
    stop_preemption()
