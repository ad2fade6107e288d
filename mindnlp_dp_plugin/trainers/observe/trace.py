"""A timeline of all ranks over a few steps, for Perfetto (ui.perfetto.dev) and Chrome's ``chrome://tracing``.

Each rank has two lanes. The lane ``step`` shows the phases: data, forward, waiting for other ranks' forward, backward,
waiting for gradients, clip, optimizer, and the Trainer, which is what is left. The lane ``all-reduce`` shows the
buckets in progress.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from mindnlp_dp_plugin.collectives import Collective, PartWork, Work
from mindnlp_dp_plugin.language import Message

STEP_LANE, ALL_REDUCE_LANE = "step", "all-reduce"
DATA, TRAINER = "data", "trainer"
NOTHING = object()


class Trace:
    """Spans of time on this rank. All ranks must create it together: a barrier sets their clocks to zero.

    Args:
        collective: The ranks whose traces are merged.
    """

    def __init__(self, collective: Collective):
        self._collective = collective
        self._events = []
        self._phase = None
        collective.barrier()
        self._zero = time.perf_counter()

    def now(self) -> float:
        """Seconds since the ranks' common start."""
        return time.perf_counter() - self._zero

    def begin_phase(self, name: str | None) -> None:
        """End the current phase on the lane ``step``, and begin ``name``, if that is one."""
        now = self.now()
        if self._phase:
            self.add(STEP_LANE, *self._phase, now)
        self._phase = name and (name, now)

    def add(self, lane: str, name: str, begin: float, end: float, **details) -> None:
        """Record a completed span; ``begin`` and ``end`` are seconds, as ``now`` returns them."""
        self._events.append(
            {
                "name": name,
                "ph": "X",
                "pid": self._collective.rank,
                "tid": lane,
                "ts": begin * 1e6,
                "dur": (end - begin) * 1e6,
                "args": details,
            }
        )

    def write(self, path: Path) -> list[list[dict]]:
        """Write one file with the spans of all ranks. All ranks must call it; rank 0 writes.

        The format is Chrome's Trace Event Format: complete events, in microseconds.

        Returns:
            The events of each rank.
        """
        self.begin_phase(None)
        everyone = self._collective.all_gather_object(self._events, Message("traces of a step"))
        if self._collective.rank == 0:
            names = [
                {"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}}
                for rank in range(self._collective.world_size)
            ]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"traceEvents": names + [event for events in everyone for event in events]}))
        return everyone


def reading(batches: Iterable, on_phase: Callable[[str], None]) -> Iterator[Any]:
    """The same batches; while one is read, that is the phase."""
    batches = iter(batches)
    while True:
        on_phase(DATA)
        batch = next(batches, NOTHING)
        on_phase(TRAINER)
        if batch is NOTHING:
            return
        yield batch


class TracedCollective:
    """A ``Collective`` whose sums of gradients are recorded while a trace is on.

    Args:
        collective: Runs them.
    """

    def __init__(self, collective: Collective):
        self._collective = collective
        self._under_way = []
        self.trace = None

    def __getattr__(self, name):
        return getattr(self._collective, name)

    def all_reduce(self, buffer) -> Work:
        """Start an all-reduce and record it."""
        return self._recorded(self._collective.all_reduce(buffer), buffer)

    def reduce_scatter(self, buffer, lengths) -> Work:
        """Start a reduce-scatter and record it."""
        return self._recorded(self._collective.reduce_scatter(buffer, lengths), buffer)

    def _recorded(self, work, buffer):
        if self.trace is None:
            return work
        traced = TracedWork(work, self.trace, buffer.size * buffer.itemsize, self._under_way)
        self._under_way.append(traced)
        return traced


class TracedWork(PartWork):
    """A sum that records its start, and when its end was observed."""

    def __init__(self, work: Work, trace: Trace, num_bytes: int, under_way: list):
        self._work, self._trace, self._num_bytes, self._under_way = work, trace, num_bytes, under_way
        self._begin = trace.now()

    def progress(self):
        """Check all in progress: engines complete earlier ones while a later one is asked."""
        for traced in list(self._under_way):
            if traced._work.progress():
                traced._note_end()
        return self not in self._under_way

    def wait(self):
        """Wait, then record the end."""
        self._work.wait()
        self._note_end()

    @property
    def part(self):
        """That of a reduce-scatter."""
        return self._work.part

    def _note_end(self):
        if self in self._under_way:
            self._under_way.remove(self)
            megabytes = self._num_bytes / 2**20
            self._trace.add(
                ALL_REDUCE_LANE, f"{megabytes:.2f} MB", self._begin, self._trace.now(), bytes=self._num_bytes
            )
