"""Show output. A separate thread writes, so that a stalled reader never blocks supervision."""

import functools
import os
import queue
import re
import threading
import time
from pathlib import Path

from mindnlp_dp_plugin.job.error_record import rank_log
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch.signals import Signals

PIECE_BYTES = 2**16
NUM_PIECES = 16
POLL_S = 0.02
SAY_S = 2
# What MindSpore says of its cluster when it is being left, whatever its log level.
LEAVING = re.compile(rb"(\[rank \d+\] )?\[INFO\] DISTRIBUTED\([^\n]*Event base dispatch success!\n")


class Terminal(threading.Thread):
    """One of the launcher's streams.

    Args:
        descriptor: The stream's file descriptor.

    Attributes:
        error: Why nothing more can be written; None if it can.
    """

    def __init__(self, descriptor: int):
        super().__init__(name=f"terminal {descriptor}", daemon=True)
        self.error: OSError | None = None
        self._descriptor = descriptor
        self._pieces = queue.Queue(NUM_PIECES)
        self.start()

    def offer(self, piece: bytes) -> bool:
        """Queue a piece, unless too much is queued. Never waits. Returns whether it was queued."""
        try:
            self._pieces.put_nowait(piece)
        except queue.Full:
            return False
        return True

    def is_idle(self) -> bool:
        """Whether everything queued is written or cannot be."""
        return self._pieces.unfinished_tasks == 0

    def drain(self, seconds: float) -> None:
        """Wait until everything queued is written, or nothing was for so many seconds."""
        deadline, before = time.monotonic() + seconds, None
        while not self.is_idle() and time.monotonic() < deadline:
            if (left := self._pieces.unfinished_tasks) != before:
                deadline, before = time.monotonic() + seconds, left
            time.sleep(POLL_S)

    def run(self) -> None:
        """Write until the process ends."""
        while True:
            piece = self._pieces.get()
            try:
                while piece and self.error is None:
                    piece = piece[os.write(self._descriptor, piece) :]
            except OSError as error:
                self.error = error
            self._pieces.task_done()


@functools.cache
def terminal_of(descriptor: int) -> Terminal:
    """The one that writes to this stream: two would change the order of what they write."""
    return Terminal(descriptor)


def tell(message: str) -> None:
    """Show a message of the launcher on standard error."""
    say(f"mindnlp-dp: {message}\n")


def tell_note(message: str) -> None:
    """Show something that does not end the job."""
    tell(tr("note: {text}", text=message))


def say(text: str) -> None:
    """Write to standard error, waiting for a stalled reader a few seconds at most."""
    terminal = terminal_of(2)
    terminal.offer(text.encode(errors="replace"))
    terminal.drain(SAY_S)


class Tail:
    """A growing log, shown piece by piece; with a prefix, line by line.

    Args:
        path: The log.
        prefix: The beginning of each line; empty for a single rank, so that its progress bars move.
    """

    def __init__(self, path: Path, prefix: bytes = b""):
        self._file = path.open("rb", buffering=0)
        self._prefix = prefix

    def size(self) -> int:
        """The log's current size in bytes."""
        return os.fstat(self._file.fileno()).st_size

    def show(self, terminal: Terminal, end: int, is_last: bool = False) -> bool:
        """Show new output up to byte ``end``, as far as the terminal accepts it. Returns whether that was all.

        With a prefix, the beginning of a line waits for the rest of it, unless this is the last that is shown.
        """
        while (begin := self._file.tell()) < end:
            piece = self._file.read(min(PIECE_BYTES, end - begin))
            if not piece:  # cut short by somebody
                return True
            is_end = is_last and begin + len(piece) == end
            shown = self._in_lines(piece, begin, is_end) if self._prefix else piece
            if shown is None:
                return True
            if not terminal.offer(LEAVING.sub(b"", shown)):
                self._file.seek(begin)
                return False
        return True

    def _in_lines(self, piece, begin, is_end):
        whole, newline, rest = piece.rpartition(b"\n")
        has_room = newline or len(piece) < PIECE_BYTES  # a line longer than a piece is shown in parts
        if rest and has_room and not is_end:
            self._file.seek(begin + len(whole) + len(newline))
            piece = whole + newline
        if not piece:
            return None
        lines = piece.removesuffix(b"\n").split(b"\n")
        return b"".join(self._prefix + line + b"\n" for line in lines)


class View:
    """The logs that are shown on standard output.

    Args:
        log_dir: The folder with the logs.
        ranks: The ranks to show; with several, each line begins with its rank.
    """

    def __init__(self, log_dir: Path, ranks: list[int]):
        prefixes = {rank: f"[rank {rank}] ".encode() if len(ranks) > 1 else b"" for rank in ranks}
        self._tails = {rank: Tail(rank_log(log_dir, rank), prefixes[rank]) for rank in ranks}
        self._terminal = terminal_of(1)

    @property
    def error(self) -> OSError | None:
        """Why nothing more can be shown."""
        return self._terminal.error

    def sizes(self) -> dict[int, int]:
        """The logs' current sizes."""
        return {rank: tail.size() for rank, tail in self._tails.items()}

    def show(self, ends: dict[int, int], is_last: bool = False) -> bool:
        """Show each log up to a byte; never waits. Returns whether that was all."""
        tails = [(self._tails[rank], end) for rank, end in ends.items() if rank in self._tails]
        return all([tail.show(self._terminal, end, is_last) for tail, end in tails])

    def show_all(self, ends: dict[int, int], seconds: float, unless: Signals | None = None) -> None:
        """Show each log up to its last byte: wait so many seconds for the reader, unless a stop signal comes."""
        deadline = time.monotonic() + seconds
        while self.error is None and time.monotonic() < deadline and not (unless and unless.stop):
            if self.show(ends, is_last=True) and self._terminal.is_idle():
                return
            time.sleep(POLL_S)
