"""A job's private folder, in shared memory if that has room; removed with the job.

If its launcher was killed, the next job removes it.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mindnlp_dp_plugin.job.hardware import SHARED_MEMORY, has_shared_memory_for

PREFIX = "mindnlp-dp-job-"
YOUNG_S = 60  # its launcher may be about to lock it


@contextmanager
def scratch_dir(num_ranks: int) -> Iterator[Path]:
    """A folder for a job with so many ranks on this node, removed with its contents when the job is over."""
    folders = home(num_ranks)
    remove_abandoned(folders)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folders))
    try:
        with locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def home(num_ranks: int) -> Path:
    """The parent of these folders: in shared memory if it has room for so many ranks, otherwise on disk."""
    return SHARED_MEMORY if has_shared_memory_for(num_ranks) else Path(tempfile.gettempdir())


def remove_abandoned(folders: Path) -> None:
    """Remove folders of killed launchers, whose locks the kernel has released."""
    for folder in folders.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another user's, or its launcher lives
            if time.time() - folder.stat().st_mtime < YOUNG_S:
                continue
            with locked(folder):
                shutil.rmtree(folder)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder; the lock goes with this process.

    Raises:
        BlockingIOError: If another process has locked it.
        OSError: On file systems that know no locks.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
