"""Ends a job whose ranks wait for each other in vain, and says who was where.

Two things end it: a collective in which this rank waits longer than the timeout, and, at once, ranks of one host that
are in different collectives, though it is the n-th for both: collectives are matched by their order, so neither would
ever return. torch's NCCL watchdog does the first, its ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` the second.
"""

import faulthandler
import os
import re
import sys
import threading
import time
from pathlib import Path

from mindnlp_dp_plugin.collectives.base import Collective, Work
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.rank_info import Identity
from mindnlp_dp_plugin.job.rank_status import (
    ALL_GATHER_OBJECT,
    ALL_REDUCE,
    BARRIER,
    BROADCAST,
    CLAIM,
    DONE,
    END,
    WAITING,
    Board,
    State,
    ask_for_stacks,
    read_state,
)
from mindnlp_dp_plugin.launch.failures import write_record
from mindnlp_dp_plugin.launch.logs import LOG_DIR

POLL_S = 0.25
PATIENCE_WITH_THE_CLAIMANT_S = 5
NOT_SHOWN = ('"<frozen importlib', '"<frozen runpy>"', "mindnlp_dp_plugin/runtime/worker.py")
WAY_OUT = (
    "All ranks must call the same collectives in the same order. Look for ranks that take different numbers of steps, "
    "for trainer.evaluate(), dp.barrier() or an early break or exit on some ranks only."
)


class Watched(Collective):
    """An engine that notes on a board what it waits for.

    Args:
        engine: Who carries the collectives.
        board: Where to note it.
        watchdog: Who is asked for an explanation if the engine fails.
    """

    def __init__(self, engine: Collective, board: Board, watchdog: "Watchdog"):
        self._engine = engine
        self._board = board
        self._watchdog = watchdog
        self._number = 0
        self.rank, self.world_size = engine.rank, engine.world_size
        self.on_host, self.bucket_cap_mb = engine.on_host, engine.bucket_cap_mb

    def all_reduce(self, buffer):
        self._number += 1
        noted = (self._number, ALL_REDUCE, buffer.size)
        start = self._engine.all_reduce
        # MPI starts without waiting. On CPU MindSpore's operators run when called, so there starting may be the wait.
        work = start(buffer) if self.on_host else self._wait(noted, start, buffer)
        return WatchedWork(work, self._wait, noted)

    def broadcast(self, tensor, src=0):
        self._number += 1
        self._wait((self._number, BROADCAST, tensor.size), self._engine.broadcast, tensor, src)

    def all_gather_object(self, value):
        self._number += 1
        return self._wait((self._number, ALL_GATHER_OBJECT), self._engine.all_gather_object, value)

    def barrier(self):
        self._number += 1
        self._wait((self._number, BARRIER), self._engine.barrier)

    def end(self) -> None:
        """Return when all ranks have come to their end. To be called on all ranks, last of all."""
        self._number += 1
        self._wait((self._number, END), self._engine.barrier)
        self._board.end()

    def _wait(self, noted, call, *arguments):
        self._board.enter(*noted)
        try:
            return call(*arguments)
        except Exception:  # MCCL may fail at once where MPI would wait
            self._watchdog.look_for_disagreement()
            raise
        finally:
            self._board.leave()


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
        identity: Which rank this is.
        board: What it notes.
        folder: The board on which the ranks of this host show their states; None under launchers that make none.
        timeout: Seconds a collective may wait.

    Attributes:
        timeout: The same; may be changed.
    """

    def __init__(self, identity: Identity, board: Board, folder: Path | None, timeout: float):
        super().__init__(name="watchdog", daemon=True)
        self.timeout = timeout
        self._rank = identity.rank
        self._board = board
        self._folder = folder
        first = identity.rank - identity.local_rank
        self._ranks_here = range(first, first + identity.local_world_size) if folder else ()

    def run(self) -> None:
        """Until the process ends."""
        suspicion = None
        while True:
            time.sleep(POLL_S)
            mine = self._board.read()
            if mine.phase != WAITING:
                continue
            waited = time.monotonic() - mine.since
            if waited > self.timeout:
                self._give_up(
                    f"rank {self._rank} has waited {waited:.1f} s in {mine.collective}, longer than "
                    f"timeout={self.timeout:g} (MINDNLP_DP_TIMEOUT, seconds)"
                )
            # A state may be read while it is written, so one that looks odd is looked at again.
            found = self._disagreement(mine)
            if found and found == suspicion:
                self._give_up(found)
            suspicion = found

    def look_for_disagreement(self) -> None:
        """End the job if this rank is in another collective than a peer."""
        if found := self._disagreement(self._board.read()):
            self._give_up(found)

    def _disagreement(self, mine: State) -> str | None:
        for rank, theirs in self._states().items():
            is_elsewhere = (theirs.name, theirs.num_elements) != (mine.name, mine.num_elements)
            if theirs.number == mine.number and is_elsewhere:
                return f"rank {self._rank} is in {mine.collective}, but rank {rank} in {theirs.collective}"
            if theirs.number < mine.number and theirs.phase == DONE:
                return f"rank {self._rank} is in {mine.collective}, but rank {rank} has come to its end"
        return None

    def _states(self) -> dict[int, State]:
        states = {rank: read_state(self._folder, rank) for rank in self._ranks_here}
        return {rank: state for rank, state in states.items() if state}

    def _give_up(self, why: str) -> None:
        """Says why, where all ranks of this host are, and ends this process; its launcher then ends the others."""
        if self._folder is None:
            print(f"DataParallelError: {why}. {WAY_OUT}\nStacks of rank {self._rank}:", file=sys.__stderr__)
            faulthandler.dump_traceback(sys.__stderr__, all_threads=True)
            os._exit(1)
        try:
            os.close(os.open(self._folder / CLAIM, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:  # a peer has seen it too, and tells of this rank with the others
            time.sleep(PATIENCE_WITH_THE_CLAIMANT_S)
        states = self._states()
        stacks = ask_for_stacks(self._folder, states)
        lines = [f"{why}. {WAY_OUT}"]
        lines += [f"  rank {rank}: {states.get(rank, 'has not started')}" for rank in self._ranks_here]
        lines += [f"\nStacks of rank {rank}, innermost call first:\n{_tidy(stacks[rank])}" for rank in states]
        error = DataParallelError("\n".join(lines))
        write_record(Path(os.environ[LOG_DIR]), self._rank, error, 1)
        print(f"DataParallelError: {error}", file=sys.__stderr__)
        os._exit(1)


def _tidy(stacks: str) -> str:
    """Without the watchdog's own thread, and without the frames of the import system and of the script's runner."""
    own = re.compile(rf'"{re.escape(__file__)}", line \d+ in run$', re.MULTILINE)
    lines = "\n".join(thread for thread in stacks.strip().split("\n\n") if not own.search(thread)).splitlines()
    return "\n".join(line for line in lines if not any(frame in line for frame in NOT_SHOWN))
