"""Let ranks of other launchers leave MindSpore's cluster together, or end at once if they fail.

A rank that leaves early, even just after a collective, may drop data that a peer has yet to receive. A rank that fails
would wait in MindSpore's clean-up for peers that wait for it. ``mindnlp-dp run`` and MPI take care of both themselves.
"""

import atexit
import os
import sys
import time
from contextlib import suppress

from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.collectives.wakeups import stop_preemption

FLUSH_S = 1  # for MindSpore's threads to send the rest of the last barrier

_status = 0


def leave_together() -> None:
    """Let this process wait at its end for all ranks, or end at once if it fails."""
    hook, leave = sys.excepthook, sys.exit

    def note_exception(*args):
        _note(1)
        hook(*args)

    def note_status(status=None, /):
        _note(0 if status is None else status & 0xFF if isinstance(status, int) else 1)
        leave(status)

    sys.excepthook, sys.exit = note_exception, note_status
    atexit.register(_leave)


def _note(status):
    global _status
    _status = status


def _leave():
    if _status:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(_status)
    collectives.shutdown()
    time.sleep(FLUSH_S)
    stop_preemption()
