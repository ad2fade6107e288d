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
REMOVE_S = 2
YOUNG_S = 60  # its launcher may be about to lock it


@contextmanager
def scratch_dir(num_ranks: int) -> Iterator[Path]:
    """A folder for a job with so many ranks on this node, removed with its contents when the job is over."""
    folders = home(num_ranks)
    remove_abandoned(folders)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=folders))
    try:
        with _locked(folder):
            yield folder
    finally:
        deadline = time.monotonic() + REMOVE_S
        while folder.exists() and time.monotonic() < deadline:  # who is about to die may put another file in it
            shutil.rmtree(folder, ignore_errors=True)


def home(num_ranks: int) -> Path:
    """The parent of these folders: in shared memory if it has room for so many ranks, otherwise on disk."""
    return SHARED_MEMORY if has_shared_memory_for(num_ranks) else Path(tempfile.gettempdir())


def is_in_memory(folder: Path) -> bool:
    """Whether a folder that ``scratch_dir`` made is in shared memory."""
    return folder.is_relative_to(SHARED_MEMORY)


def remove_abandoned(folders: Path, min_age_s: float = YOUNG_S) -> None:
    """Remove folders of killed launchers, whose locks the kernel has released."""
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
