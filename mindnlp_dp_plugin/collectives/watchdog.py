"""Ends a deadlocked job, and reports each rank's collective and stack.

Three findings end it: this rank waits in a collective longer than the timeout; two ranks of this node are in different
collectives that are the n-th of both; or a rank has ended that a collective needs. Collectives are matched by order, so
none of these would ever return. torch's NCCL watchdog finds the first, its ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` the
second.
"""

import faulthandler
import math
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from mindnlp_dp_plugin.collectives.base import Collective, Work
from mindnlp_dp_plugin.collectives.engines import Engine
from mindnlp_dp_plugin.collectives.lifeline import End, Lifeline
from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.job.error_record import write_record
from mindnlp_dp_plugin.job.rank_info import RankInfo
from mindnlp_dp_plugin.job.rank_process import folder_told
from mindnlp_dp_plugin.job.rank_status import (
    CLAIM,
    ENDING,
    LEAVING,
    Phase,
    Status,
    describe_caught,
    describe_collective,
    describe_ranks,
    read_status,
)
from mindnlp_dp_plugin.job.variables import LOG_DIR, STATUS_DIR
from mindnlp_dp_plugin.language import Message, tr

POLL_S = 0.25
END_POLL_S = 0.02
SEE_OFF_S = 5
HELD_UP_S = 5  # for a step to come to where it waits for what it has started
LAUNCHER_S = 2  # for a launcher to see who failed first, and to end this rank itself if it does that
CLAIMANT_TIMEOUT_S = 5
HINT = Message(
    "All ranks must call the same collectives in the same order. Look for ranks that take different numbers of steps, "
    "for callbacks that set control.should_* on some ranks only, for an exception that one rank has caught, for a part "
    "of the loss that some ranks leave out, for trainer.evaluate(), dp.barrier() or an early break or exit on some "
    "ranks only."
)


_tell: Callable[[DataParallelError], None] | None = None


def tell_by(tell: Callable[[DataParallelError], None]) -> None:
    """From now on, tell a system that runs ranks why one gives up, before its process ends."""
    global _tell
    _tell = tell


class Watched(Collective):
    """An engine that records in this rank's status which collective it waits for.

    It has many attributes because an engine's own are among them.

    Args:
        collective: What the engine does.
        engine: Its row.
        status: This rank's status.
        watchdog: Asked for an explanation if the engine fails.
    """

    def __init__(self, collective: Collective, engine: Engine, status: Status, watchdog: "Watchdog"):
        self._engine = collective
        self._status = status
        self._watchdog = watchdog
        self._number = 0
        self._process = os.getpid()
        self.rank, self.world_size = collective.rank, collective.world_size
        self.uses_numpy, self.can_reduce_scatter = collective.uses_numpy, collective.can_reduce_scatter
        self.adds_by_tree = collective.adds_by_tree
        self.forms_cluster, self.bucket_cap_mb = engine.forms_cluster, engine.bucket_cap_mb

    def memory_for(self, size, dtype):
        return self._engine.memory_for(size, dtype)

    @property
    def borrowed_bytes(self):
        return self._engine.borrowed_bytes

    def all_reduce(self, buffer):
        return self._started("all_reduce", self._engine.all_reduce, buffer)

    def reduce_scatter(self, buffer, lengths):
        return self._started("reduce_scatter", self._engine.reduce_scatter, buffer, lengths)

    def all_gather(self, part):
        return self._wait(self._next("all_gather", math.prod(part.shape)), self._engine.all_gather, part)

    def broadcast(self, tensor, src=0):
        self._wait(self._next("broadcast", math.prod(tensor.shape)), self._engine.broadcast, tensor, src)

    def all_gather_object(self, value, purpose=None):
        # The purpose travels along: two exchanges that are each the n-th of their rank would match by chance.
        noted = self._next("all_gather_object", purpose=str(purpose or ""))
        return self._wait(noted, self._exchange, value, noted)

    def _exchange(self, value, noted):
        *rest, purpose = noted
        everyone = self._engine.all_gather_object((purpose, value))
        for rank, (theirs, _) in enumerate(everyone):
            if theirs != purpose:
                self._watchdog.end_job(noted, rank, (*rest, theirs))
        return [value for _, value in everyone]

    def barrier(self):
        self._wait(self._next("barrier"), self._engine.barrier)

    def end(self, last: Any = None) -> list:
        """Wait, however long it takes, until all ranks are done. All ranks must call it, last of all.

        Args:
            last: What this rank has to say, an object.

        Returns:
            What all ranks had.
        """
        everyone = self._wait(self._next(ENDING), self._meet_at_the_end, last)
        self._status.end()
        return everyone

    def leave(self):
        self._wait(self._next(LEAVING), self._engine.barrier)
        self._engine.leave()

    def _meet_at_the_end(self, last):
        # What a rank still does for itself may take longer than an engine waits, and MPI would use up a core meanwhile.
        while not self._watchdog.are_all_at_their_ends():
            time.sleep(END_POLL_S)
        everyone = self._engine.all_gather_object(last)
        self._engine.barrier()
        return everyone

    def see_off(self) -> None:
        """Before this process leaves at once: wait for ranks of this node that are in a collective it has completed.

        What it has sent them may be on its way, and would be lost with it.
        """
        deadline = time.monotonic() + SEE_OFF_S
        while self._watchdog.is_waited_for(self._number) and time.monotonic() < deadline:
            time.sleep(END_POLL_S)

    def _next(self, name, num_elements=0, purpose=""):
        """What is noted of the next collective. A child that was forked shares the engine's memory and connections."""
        if os.getpid() != self._process:
            raise DataParallelError(
                "{name} was called in process {pid}, a forked child of rank {rank}: only ranks can call it. Call it "
                "in the script itself, or start the child as a program of its own, which then runs alone.",
                name=name,
                pid=os.getpid(),
                rank=self.rank,
            )
        self._number += 1
        return self._number, name, num_elements, purpose

    def _started(self, name, start, buffer, *more):
        noted = self._next(name, math.prod(buffer.shape))
        work = self._wait(noted, start, buffer, *more) if self.forms_cluster else start(buffer, *more)
        watched = WatchedWork(work, self._wait, noted)
        self._watchdog.pending.add(watched)
        return watched

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
    """A collective in progress, whose wait is recorded.

    Attributes:
        noted: What ``Status.enter`` is told of it.
        since: When it was started.
        is_done: Whether it was waited for.
    """

    def __init__(self, work: Work, wait, noted):
        self._work = work
        self._wait = wait
        self.noted, self.since, self.is_done = noted, time.monotonic(), False

    def progress(self):
        return self._work.progress()

    def wait(self):
        self._wait(self.noted, self._work.wait)
        self.is_done = True

    @property
    def part(self):
        """That of a reduce-scatter."""
        return self._work.part


class Watchdog(threading.Thread):
    """Checks several times a second what this rank waits for. Engines release the interpreter lock while they wait.

    Args:
        rank_info: Which rank this is.
        status: This rank's status.
        timeout: Seconds a collective may wait.

    Attributes:
        pending: Collectives that were started, and perhaps not waited for: MindSpore's on CPU hold up whatever is
            computed after them.
    """

    def __init__(self, rank_info: RankInfo, status: Status, timeout: float):
        super().__init__(name="watchdog", daemon=True)
        self.pending: weakref.WeakSet[WatchedWork] = weakref.WeakSet()
        self._rank = rank_info.rank
        self._status = status
        self._folder = folder_told(STATUS_DIR)
        self._lifeline: Lifeline | None = None
        first = rank_info.rank - rank_info.local_rank
        self._local_ranks = range(first, first + rank_info.local_world_size) if self._folder else ()
        self.allow(timeout)

    def allow(self, timeout: float) -> None:
        """Set how many seconds a collective may wait."""
        self._timeout = timeout
        self._status.timeout = timeout

    def listen(self, lifeline: Lifeline) -> None:
        """Hear from now on how other ranks end."""
        self._lifeline = lifeline

    def run(self) -> None:
        """Check until the process ends."""
        suspicion = None
        while True:
            time.sleep(POLL_S)
            mine = self._status.read()
            if self._lifeline:
                self._follow(self._lifeline.first_lost(), mine)
            if mine.phase != Phase.WAITING:
                continue
            waited = time.monotonic() - mine.since
            if waited > self._timeout and not mine.is_at_its_end:  # whose script is over needs nobody
                self._give_up(
                    tr(
                        "rank {rank} has waited {waited:.1f} s in {collective}, longer than timeout={limit:g} "
                        "(MINDNLP_DP_TIMEOUT, seconds)",
                        rank=self._rank,
                        waited=waited,
                        collective=mine.collective,
                        limit=self._timeout,
                    )
                )
            # A status may be read while it is written, so a finding must be seen twice.
            found = self._disagreement(mine)
            if found and found == suspicion:
                self._give_up(found)
            suspicion = found

    def _follow(self, lost, mine):
        """End after a rank that has failed; one that is gone without a word may have left by ``os._exit(0)``."""
        if lost is None or mine.phase == Phase.DONE:
            return
        now = time.monotonic()
        lasts = now - lost.since > LAUNCHER_S
        known = {"rank": self._rank, "lost": lost.rank}
        if lasts and lost.end == End.FAILED:
            self._leave(tr("rank {lost} has failed, so rank {rank} ends, too: see the output of rank {lost}", **known))
        waits = mine.phase == Phase.WAITING and now - mine.since > LAUNCHER_S
        if lasts and (collective := mine.collective if waits else self._held_up_by(now - lost.since)):
            self._leave(
                tr(
                    "rank {lost} is gone (killed, or its machine is out of reach), and rank {rank} is in {collective}",
                    collective=collective,
                    **known,
                )
            )

    def _held_up_by(self, seconds):
        """A collective that was started and has not been waited for, for so long that it holds this rank up."""
        with suppress(RuntimeError):  # another has just been started
            held = [work for work in self.pending if not work.is_done and time.monotonic() - work.since > HELD_UP_S]
            return describe_collective(*held[0].noted) if held and seconds > HELD_UP_S else None
        return None

    def _leave(self, why):
        with suppress(OSError):
            os.write(2, f"DataParallelError: {why}.\n".encode(errors="replace"))
        os._exit(1)

    def look_for_disagreement(self) -> None:
        """End the job if this rank is in another collective than a peer."""
        if found := self._disagreement(self._status.read()):
            self._give_up(found)

    def are_all_at_their_ends(self) -> bool:
        """Whether no rank of this node has anything left to do, as far as can be seen."""
        return all(status.is_at_its_end for status in self._statuses().values())

    def is_waited_for(self, number: int) -> bool:
        """Whether another rank of this node is in one of the collectives up to this number."""
        others = [status for rank, status in self._statuses().items() if rank != self._rank]
        return any(status.phase == Phase.WAITING and status.number <= number for status in others)

    def end_job(self, mine: tuple, other: int, theirs: tuple) -> None:
        """End the job: a peer is in another collective.

        Args:
            mine: This rank's, as ``Status.enter`` was told of it.
            other: The peer.
            theirs: The peer's.
        """
        self._give_up(_apart(self._rank, describe_collective(*mine), other, describe_collective(*theirs)))

    def _disagreement(self, mine: Status) -> str | None:
        for rank, theirs in self._statuses().items():
            if not theirs.name:  # not joined yet
                continue
            if theirs.number == mine.number and theirs.collective != mine.collective:
                return _apart(self._rank, mine.collective, rank, theirs.collective)
            if theirs.number < mine.number and theirs.phase == Phase.DONE:
                return tr(
                    "rank {rank} is in {collective}, but rank {other} has ended",
                    rank=self._rank,
                    collective=mine.collective,
                    other=rank,
                )
        return None

    def _statuses(self) -> dict[int, Status]:
        statuses = {rank: read_status(self._folder, rank) for rank in self._local_ranks}
        return {rank: status for rank, status in statuses.items() if status}

    def _give_up(self, why: str) -> None:
        """Report why, and where all ranks of this node are, and end this process; its launcher ends the others."""
        if self._folder is None:
            with suppress(OSError):
                told = tr("{why}. {hint}\nStacks of rank {rank}:", why=why, hint=HINT, rank=self._rank)
                os.write(2, f"DataParallelError: {told}\n".encode())
                faulthandler.dump_traceback(2, all_threads=True)
            try:
                if _tell:
                    _tell(DataParallelError("{why}. {hint}", why=why, hint=HINT))
            finally:
                os._exit(1)
        try:
            os.close(os.open(self._folder / CLAIM, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:  # a peer has found it, too, and reports this rank with the others
            time.sleep(CLAIMANT_TIMEOUT_S)
        except OSError:  # somebody has removed the folder
            pass
        try:
            error = DataParallelError(
                "{caught}{why}. {hint}\n{ranks}",
                caught=describe_caught(self._folder, self._local_ranks),
                why=why,
                hint=HINT,
                ranks=describe_ranks(self._folder, self._local_ranks),
            )
            write_record(folder_told(LOG_DIR), self._rank, error, 1)
            os.write(2, f"DataParallelError: {error}\n".encode(errors="replace"))
        finally:  # even if the disk or standard error fails
            os._exit(1)


def _apart(rank, collective, other, other_collective):
    return tr(
        "rank {rank} is in {collective}, but rank {other} in {other_collective}",
        rank=rank,
        collective=collective,
        other=other,
        other_collective=other_collective,
    )
