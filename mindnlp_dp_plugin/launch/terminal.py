"""Show output. Threads write, so that a stalled reader never blocks supervision."""

import os
import re
import threading
import time
from contextlib import suppress
from pathlib import Path

from mindnlp_dp_plugin.job.error_record import rank_log
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.signals import POLL_S, Signals

PIECE_BYTES = 2**16
SAY_S = 2
# What MindSpore says of its cluster when it is being left, whatever its log level.
LEAVING = re.compile(rb"(\[rank \d+\] )?\[INFO\] DISTRIBUTED\([^\n]*Event base dispatch success!\n")
_last_words: threading.Thread | None = None


def tell(message: str) -> None:
    """Show a message of the launcher on standard error."""
    say(f"mindnlp-dp: {message}\n")


def tell_note(message: str) -> None:
    """Show something that does not end the job."""
    tell(tr("note: {text}", text=message))


def say(text: str) -> None:
    """Write to standard error, waiting for a stalled reader a few seconds at most."""
    global _last_words

    def write(earlier=_last_words):
        if earlier:
            earlier.join()
        with suppress(OSError):
            _write(2, text.encode(errors="replace"))

    _last_words = threading.Thread(target=write, daemon=True)
    _last_words.start()
    _last_words.join(SAY_S)


def _write(descriptor, piece):
    while piece:
        piece = piece[os.write(descriptor, piece) :]


class Tail:
    """A growing log, shown piece by piece; with a prefix, line by line.

    Args:
        path: The log.
        prefix: The beginning of each line; empty for a single rank, so that its progress bars move.
    """

    def __init__(self, path: Path, prefix: bytes = b""):
        self._file = path.open("rb", buffering=0)
        self._prefix = prefix
        self._rest = b""

    def size(self) -> int:
        """The log's current size in bytes."""
        return os.fstat(self._file.fileno()).st_size

    def show(self, end: int, is_last: bool) -> bool:
        """Show the next piece up to byte ``end``. Returns whether there was one.

        With a prefix, the beginning of a line waits for the rest of it, unless this is the last that is shown.
        """
        piece = self._file.read(max(0, min(PIECE_BYTES, end - self._file.tell())))
        shown = self._in_lines(piece, is_last and not piece) if self._prefix else piece
        _write(1, LEAVING.sub(b"", shown))
        return bool(piece)

    def _in_lines(self, piece, is_end):
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if self._rest and (is_end or len(self._rest) >= PIECE_BYTES):  # a line longer than a piece comes in parts
            lines, self._rest = [*lines, self._rest], b""
        return b"".join(self._prefix + line + b"\n" for line in lines)


class View(threading.Thread):
    """Shows logs on standard output, as far as it is allowed to.

    Args:
        log_dir: The folder with the logs.
        ranks: The ranks to show; with several, each line begins with its rank.

    Attributes:
        error: Why nothing more can be shown; None if it can.
    """

    def __init__(self, log_dir: Path, ranks: list[int]):
        super().__init__(name="view", daemon=True)
        self.error: OSError | None = None
        prefixes = {rank: f"[rank {rank}] ".encode() if len(ranks) > 1 else b"" for rank in ranks}
        self._tails = {rank: Tail(rank_log(log_dir, rank), prefixes[rank]) for rank in ranks}
        self._allowed: tuple[dict[int, int], bool] = ({}, False)
        self.start()

    def sizes(self) -> dict[int, int]:
        """The logs' current sizes."""
        return {rank: tail.size() for rank, tail in self._tails.items()}

    def show(self, ends: dict[int, int]) -> None:
        """Allow it to show each log up to a byte."""
        self._allowed = ends, False

    def show_all(self, ends: dict[int, int], seconds: float, unless: Signals | None = None) -> None:
        """Show each log up to its last byte: wait so many seconds for the reader, unless a stop signal comes."""
        self._allowed = ends, True
        deadline = time.monotonic() + seconds
        while self.is_alive() and time.monotonic() < deadline and not (unless and unless.stop):
            self.join(POLL_S)
        self._allowed = {}, True

    def run(self) -> None:
        """Show what is allowed, until that is the last."""
        is_last = has_shown = False
        while has_shown or not is_last:
            ends, is_last = self._allowed
            try:
                has_shown = any([self._tails[rank].show(end, is_last) for rank, end in ends.items()])
            except OSError as error:
                self.error = error
                return
            if not has_shown:
                time.sleep(POLL_S)
