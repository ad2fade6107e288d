"""Let ranks of other launchers leave MindSpore's cluster together.

A rank that leaves early, even just after a collective, may drop data that a peer has yet to receive. ``mindnlp-dp run``
and MPI take care of this themselves.
"""

import atexit
import sys
import time

from mindnlp_dp_plugin import collectives

FLUSH_S = 1  # for MindSpore's threads to send the rest of the last barrier

_has_failed = False


def leave_together() -> None:
    """Let this process wait at its end for all ranks, unless it fails."""
    hook, leave = sys.excepthook, sys.exit

    def note_exception(*args):
        _note_failure()
        hook(*args)

    def note_status(status=None, /):
        if status not in (None, 0):
            _note_failure()
        leave(status)

    sys.excepthook, sys.exit = note_exception, note_status
    atexit.register(_wait_for_all)


def _note_failure():
    global _has_failed
    _has_failed = True


def _wait_for_all():
    if not _has_failed:
        collectives.shutdown()
        time.sleep(FLUSH_S)
