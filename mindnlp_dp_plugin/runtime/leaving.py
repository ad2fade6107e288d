"""Ranks of launchers that run the script itself leave MindSpore's cluster together.

One that leaves earlier, even just after a collective, may take along what a peer in that collective has yet to receive.
``mindnlp-dp run`` and MPI see to it themselves.
"""

import atexit
import sys
import time

from mindnlp_dp_plugin import collectives

FLUSH_S = 1  # for MindSpore's threads to send what is left of the last barrier

_has_failed = False


def leave_together() -> None:
    """From now on this process, at its end, waits for all ranks to come to theirs, unless it fails."""
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
