"""A job's private folder in shared memory: gone with the job or, if its launcher was killed, when another starts."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "mindnlp-dp-job-"
YOUNG_S = 60  # its launcher may be about to lock it


@contextmanager
def scratch_dir() -> Iterator[Path]:
    """A folder for a job; gone, with all that is in it, when the job is over."""
    folders = home()
    remove_abandoned(folders)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=folders, ignore_cleanup_errors=True) as name, _locked(name):
        yield Path(name)


def home() -> Path:
    """Where these folders are: in shared memory, if there is any."""
    in_memory = Path("/dev/shm")
    return in_memory if os.access(in_memory, os.W_OK) else Path(tempfile.gettempdir())


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
