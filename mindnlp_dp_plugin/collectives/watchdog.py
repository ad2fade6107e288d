"""Ends a job whose ranks wait for each other in vain, and says who was where.

Two things end it: a collective in which this rank waits longer than the timeout, and, at once, ranks of one node that
are in different collectives, though it is the n-th for both: collectives are matched by their order, so neither would
ever return. torch's NCCL watchdog does the first, its ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` the second.
"""

import faulthandler
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

from mindnlp_dp_plugin.collectives.base import Collective, Work
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.error_record import write_record
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.rank_status import CLAIM, Phase, RankStatus, Status, describe_ranks, read_status
from mindnlp_dp_plugin.job.variables import LOG_DIR, STATUS_DIR

POLL_S = 0.25
CLAIMANT_TIMEOUT_S = 5
HINT = (
    "All ranks must call the same collectives in the same order. Look for ranks that take different numbers of steps, "
    "for trainer.evaluate(), dp.barrier() or an early break or exit on some ranks only."
)


class Watched(Collective):
    """An engine that notes in this rank's status what it waits for.

    Args:
        engine: Who carries the collectives.
        status: Where to note it.
        watchdog: Who is asked for an explanation if the engine fails.
    """

    def __init__(self, engine: Collective, status: RankStatus, watchdog: "Watchdog"):
        self._engine = engine
        self._status = status
        self._watchdog = watchdog
        self._number = 0
        self.rank, self.world_size = engine.rank, engine.world_size
        self.uses_numpy, self.bucket_cap_mb = engine.uses_numpy, engine.bucket_cap_mb

    def all_reduce(self, buffer):
        self._number += 1
        noted = (self._number, "all_reduce", buffer.size)
        start = self._engine.all_reduce
        # MPI starts without waiting. On CPU MindSpore's operators run when called, so there starting may be the wait.
        work = start(buffer) if self.uses_numpy else self._wait(noted, start, buffer)
        return WatchedWork(work, self._wait, noted)

    def broadcast(self, tensor, src=0):
        self._number += 1
        self._wait((self._number, "broadcast", tensor.size), self._engine.broadcast, tensor, src)

    def all_gather_object(self, value):
        self._number += 1
        return self._wait((self._number, "all_gather_object"), self._engine.all_gather_object, value)

    def barrier(self):
        self._number += 1
        self._wait((self._number, "barrier"), self._engine.barrier)

    def end(self) -> None:
        """Return when all ranks have come to their end. To be called on all ranks, last of all."""
        self._number += 1
        self._wait((self._number, "its last barrier"), self._engine.barrier)
        self._status.end()

    def _wait(self, noted, call, *arguments):
        self._status.enter(*noted)
        try:
            return call(*arguments)
        except Exception:  # MCCL may fail at once where MPI would wait
            self._watchdog.look_for_disagreement()
            raise
        finally:
            self._status.leave()


class WatchedWork(Work):
    """A collective under way, whose wait is noted."""

    __slots__ = ("_noted", "_wait", "_work")

    def __init__(self, work: Work, wait, noted):
        self._work = work
        self._wait = wait
        self._noted = noted

    def progress(self):
        return self._work.progress()

    def wait(self):
        self._wait(self._noted, self._work.wait)


class Watchdog(threading.Thread):
    """Looks several times a second at what this rank waits for. All engines let go of the interpreter while they wait.

    Args:
        rank_info: Which rank this is.
        status: What it notes.
        timeout: Seconds a collective may wait.
    """

    def __init__(self, rank_info: RankInfo, status: RankStatus, timeout: float):
        super().__init__(name="watchdog", daemon=True)
        self._rank = rank_info.rank
        self._status = status
        self._folder = Path(os.environ[STATUS_DIR]) if STATUS_DIR in os.environ else None
        first = rank_info.rank - rank_info.local_rank
        self._local_ranks = range(first, first + rank_info.local_world_size) if self._folder else ()
        self.allow(timeout)

    def allow(self, timeout: float) -> None:
        """From now on a collective may wait so many seconds."""
        self._timeout = timeout
        self._status.allow(timeout)

    def run(self) -> None:
        """Until the process ends."""
        suspicion = None
        while True:
            time.sleep(POLL_S)
            mine = self._status.read()
            if mine.phase != Phase.WAITING:
                continue
            waited = time.monotonic() - mine.since
            if waited > self._timeout:
                self._give_up(
                    f"rank {self._rank} has waited {waited:.1f} s in {mine.collective}, longer than "
                    f"timeout={self._timeout:g} (MINDNLP_DP_TIMEOUT, seconds)"
                )
            # A state may be read while it is written, so one that looks odd is looked at again.
            found = self._disagreement(mine)
            if found and found == suspicion:
                self._give_up(found)
            suspicion = found

    def look_for_disagreement(self) -> None:
        """End the job if this rank is in another collective than a peer."""
        if found := self._disagreement(self._status.read()):
            self._give_up(found)

    def _disagreement(self, mine: Status) -> str | None:
        for rank, theirs in self._statuses().items():
            if not theirs.name:  # on its way to join
                continue
            is_elsewhere = (theirs.name, theirs.num_elements) != (mine.name, mine.num_elements)
            if theirs.number == mine.number and is_elsewhere:
                return f"rank {self._rank} is in {mine.collective}, but rank {rank} in {theirs.collective}"
            if theirs.number < mine.number and theirs.phase == Phase.DONE:
                return f"rank {self._rank} is in {mine.collective}, but rank {rank} has come to its end"
        return None

    def _statuses(self) -> dict[int, Status]:
        statuses = {rank: read_status(self._folder, rank) for rank in self._local_ranks}
        return {rank: status for rank, status in statuses.items() if status}

    def _give_up(self, why: str) -> None:
        """Says why, where all ranks of this node are, and ends this process; its launcher then ends the others."""
        if self._folder is None:
            with suppress(OSError):
                os.write(2, f"DataParallelError: {why}. {HINT}\nStacks of rank {self._rank}:\n".encode())
                faulthandler.dump_traceback(2, all_threads=True)
            os._exit(1)
        try:
            os.close(os.open(self._folder / CLAIM, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:  # a peer has seen it too, and tells of this rank with the others
            time.sleep(CLAIMANT_TIMEOUT_S)
        try:
            error = DataParallelError(f"{why}. {HINT}\n{describe_ranks(self._folder, self._local_ranks)}")
            write_record(Path(os.environ[LOG_DIR]), self._rank, error, 1)
            os.write(2, f"DataParallelError: {error}\n".encode(errors="replace"))
        finally:  # whatever became of the disk or of standard error
            os._exit(1)
