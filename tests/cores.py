"""Jobs of several test processes take turns on the cores: two at once take longer than one after the other.

Nothing depends on being alone: where another program uses the cores, a job only takes longer.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

LOCKS = Path(tempfile.gettempdir()) / f"mindnlp_dp_tests_cores_{os.getuid()}"
POLL_S = 0.02


@contextmanager
def cores_for(num_processes: int) -> Iterator[set[int] | None]:
    """Wait for as many cores as there are processes, or for all: the cores.

    None, at once, if no test processes run side by side: benchmarks measure with the whole machine.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield None
        return
    every = sorted(os.sched_getaffinity(0))
    wanted, mine = min(num_processes, len(every)), set()
    with ExitStack() as held:
        with _opened("queue") as queue:
            fcntl.flock(queue, fcntl.LOCK_EX)  # who is waiting keeps what is free: two that wait would hold one each
            while len(mine) < wanted:
                for core in every:
                    if len(mine) < wanted and core not in mine and _take(core, held):
                        mine.add(core)
                time.sleep(POLL_S)
        yield mine


def _take(core, held):
    lock = _opened(f"core_{core}")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return False
    held.enter_context(lock)
    return True


def _opened(name):
    LOCKS.mkdir(exist_ok=True)
    return (LOCKS / name).open("w")
