"""When each sum of gradients starts, and when its end is observed."""

import time
from collections.abc import Callable

from mindnlp_dp_plugin.collectives import Collective, Work


class TimedSums:
    """A ``Collective`` whose sums of gradients are timed, while ``note`` is set.

    Args:
        collective: Runs them.

    Attributes:
        note: Is told of each sum the bytes, and by ``time.perf_counter`` its begin and its end.
    """

    def __init__(self, collective: Collective):
        self._collective, self._under_way = collective, []
        self.note: Callable[[int, float, float], None] | None = None

    def __getattr__(self, name):
        return getattr(self._collective, name)

    def all_reduce(self, buffer) -> Work:
        """Start an all-reduce."""
        return self._timed(self._collective.all_reduce(buffer), buffer)

    def reduce_scatter(self, buffer, lengths) -> Work:
        """Start a reduce-scatter."""
        return self._timed(self._collective.reduce_scatter(buffer, lengths), buffer)

    def _timed(self, work, buffer):
        if self.note is None:
            return work
        timed = TimedSum(work, buffer.size * buffer.itemsize, self.note, self._under_way)
        self._under_way.append(timed)
        return timed


class TimedSum(Work):
    """A sum in progress."""

    def __init__(self, work: Work, num_bytes: int, note: Callable[[int, float, float], None], under_way: list):
        self._work, self._num_bytes, self._note, self._under_way = work, num_bytes, note, under_way
        self._began = time.perf_counter()

    def progress(self):
        """Check all in progress: engines complete earlier ones while a later one is asked."""
        for each in list(self._under_way):
            if each._work.progress():
                each._end()
        return self not in self._under_way

    def wait(self):
        """Wait, then note the end."""
        self._work.wait()
        self._end()

    @property
    def part(self):
        """That of a reduce-scatter."""
        return self._work.part

    def _end(self):
        if self in self._under_way:
            self._under_way.remove(self)
            self._note(self._num_bytes, self._began, time.perf_counter())
