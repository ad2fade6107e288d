"""The log directory: one file per rank, rank 0's shown on the terminal as it grows."""

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.error_record import rank_log, record_path


def default_log_dir() -> Path:
    """``mindnlp_dp_logs/<time>-<process id>`` below the current directory."""
    return Path("mindnlp_dp_logs", f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")


def prepare(log_dir: Path, ranks: Iterable[int]) -> None:
    """Makes the directory, readable by its owner only, with an empty log for each rank and nothing of an earlier run.

    Raises:
        DataParallelError: The directory cannot be made or written.
    """
    users_mask = os.umask(0o077)
    try:
        log_dir.mkdir(parents=True, exist_ok=True)
        for rank in ranks:
            rank_log(log_dir, rank).write_bytes(b"")
            record_path(log_dir, rank).unlink(missing_ok=True)
    except OSError as error:
        raise DataParallelError(
            f"--log-dir {str(log_dir)!r} cannot be used ({error.strerror}): give a directory you may write to."
        ) from None
    finally:
        os.umask(users_mask)


class Tail:
    """Copies a growing file to standard output byte by byte, so that progress bars move."""

    def __init__(self, path: Path):
        self._file = path.open("rb", buffering=0)

    def size(self) -> int:
        """How long the file is by now, in bytes."""
        return os.fstat(self._file.fileno()).st_size

    def pump(self, end: int) -> None:
        """Shows what is new up to the byte ``end`` of the file."""
        new = self._file.read(max(0, end - self._file.tell()))
        if new:
            sys.stdout.buffer.write(new)
            sys.stdout.buffer.flush()
