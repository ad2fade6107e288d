"""A job's private folder, in shared memory if that has room: gone with the job.

If its launcher was killed, it goes when another job starts.
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
    """A folder for a job with so many ranks here; gone, with all that is in it, when the job is over."""
    folders = home(num_ranks)
    remove_abandoned(folders)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=folders, ignore_cleanup_errors=True) as name, _locked(name):
        yield Path(name)


def home(num_ranks: int) -> Path:
    """Where these folders are: in shared memory, if it has room for the messages of so many ranks, else on disk."""
    return SHARED_MEMORY if has_shared_memory_for(num_ranks) else Path(tempfile.gettempdir())


def is_in_memory(folder: Path) -> bool:
    """Whether a folder that ``scratch_dir`` made is in shared memory."""
    return folder.is_relative_to(SHARED_MEMORY)


def remove_abandoned(folders: Path, min_age_s: float = YOUNG_S) -> None:
    """Remove what launchers that were killed have left in ``folders``: the kernel has opened their locks."""
    for folder in folders.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another user's, or its launcher lives
            if time.time() - folder.stat().st_mtime < min_age_s:
                continue
            with _locked(folder):
                shutil.rmtree(folder)


@contextmanager
def _locked(folder):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
