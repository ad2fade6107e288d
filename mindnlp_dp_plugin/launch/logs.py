"""The log directory: one file per rank, and how the job ended."""

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.error_record import rank_log, record_path
from mindnlp_dp_plugin.launch.scratch_dir import locked

LAST_BYTES = 2**16
RESULT = "result.json"


def default_log_dir() -> Path:
    """``mindnlp_dp_logs/<time>-<process id>`` below the current directory."""
    return Path("mindnlp_dp_logs", f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")


@contextmanager
def claim(log_dir: Path) -> Iterator[None]:
    """Lock the log directory, so that no other job writes there.

    Raises:
        DataParallelError: If the directory is another user's, in use by another job, or cannot be written.
    """
    with _explained(log_dir):
        _make(log_dir)
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(log_dir))
        except BlockingIOError:
            raise DataParallelError(
                "--log-dir {log_dir!r} belongs to a job that is still running: give another one.", log_dir=str(log_dir)
            ) from None
        except OSError:
            pass  # some network file systems know no locks
        yield


def prepare(log_dir: Path, ranks: Iterable[int]) -> None:
    """Make the directory, readable by its owner only, with an empty log per rank, and without files of earlier runs.

    Raises:
        DataParallelError: If the directory cannot be made or written.
    """
    with _explained(log_dir):
        _make(log_dir)
        (log_dir / RESULT).unlink(missing_ok=True)
        for rank in ranks:
            os.close(os.open(rank_log(log_dir, rank), os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600))
            record_path(log_dir, rank).unlink(missing_ok=True)


def last_bytes(log: Path) -> bytes:
    """The end of a log; empty if the file is gone."""
    try:
        with log.open("rb") as file:
            return end_of(file)
    except OSError:
        return b""


def end_of(file: BinaryIO) -> bytes:
    """The end of an open log, which may be removed by now."""
    file.seek(max(0, os.fstat(file.fileno()).st_size - LAST_BYTES))
    return file.read(LAST_BYTES)


def _make(log_dir):
    users_mask = os.umask(0o077)
    try:
        log_dir.mkdir(parents=True, exist_ok=True)
    finally:
        os.umask(users_mask)
    if log_dir.stat().st_uid != os.geteuid():
        raise DataParallelError(
            "--log-dir {log_dir!r} belongs to another user: give a directory of your own.", log_dir=str(log_dir)
        )


@contextmanager
def _explained(log_dir):
    try:
        yield
    except OSError as error:
        raise DataParallelError(
            "--log-dir {log_dir!r} cannot be used ({error}): give a directory you may write to.",
            log_dir=str(log_dir),
            error=error.strerror,
        ) from None
