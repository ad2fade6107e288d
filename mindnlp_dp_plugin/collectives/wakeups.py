"""Let MindSpore's threads connect, and leave, without interrupting each other.

Without it, joining over MCCL takes up to 70 s instead of ten on one core, and a rank that leaves may crash (SIGSEGV).
Both are races in MindSpore 2.7 to 2.10 that a thread loses if it is preempted: with the policy SCHED_BATCH a thread
that wakes up does not preempt the one that runs.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def without_preemption() -> Iterator[None]:
    """Until the end, a thread of this process that wakes up waits until the running one sleeps.

    MindSpore (2.7 to 2.10, ``tcp_comm.cc``) connects a socket first and notes where to afterwards. If its own event
    thread hears of the connection in between, that counts as failed, and is tried again half a second later. On one
    core a thread that wakes up runs at once, so most attempts failed: two ranks took 13 to 70 s to join (Linux 6.18).
    """
    if not _may_change():
        yield
        return
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # threads that are started from here on inherit it
    try:
        yield
    finally:
        _schedule_all_threads("SCHED_OTHER")


def stop_preemption() -> None:
    """Until the process ends, let each of its threads that wakes up wait until the running one sleeps.

    When a rank leaves MindSpore's cluster, the thread that is waiting for the scheduler's answer takes the connection
    apart as soon as the event thread hands it over. If it runs at once, the event thread, which has yet to return from
    that connection, crashes (``TCPClient::Finalize`` of MindSpore 2.10).
    """
    if _may_change():
        _schedule_all_threads("SCHED_BATCH")


def _may_change():
    return sys.platform.startswith("linux") and os.sched_getscheduler(0) == os.SCHED_OTHER


def _schedule_all_threads(policy):
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setscheduler(int(thread.name), getattr(os, policy), os.sched_param(0))
