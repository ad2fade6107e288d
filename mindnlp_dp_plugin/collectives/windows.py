"""Sums over the ranks of one machine, in memory that they share: nothing is sent, and each element is added up once.

When all ranks have filled an array, each adds up its part of all of them, and writes the sum back to all: a rank reads
and writes as many bytes as it has filled, however many ranks there are. Ranks are added up in the order of a binomial
tree, in which Open MPI adds small messages of up to three: the bits depend neither on timing nor on whether a rank gets
all of the sum or its part.
"""

import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from mindnlp_dp_plugin.collectives.base import Work
from mindnlp_dp_plugin.collectives.shared_memory import Segment, SharedMemory, num_resident_bytes
from mindnlp_dp_plugin.errors import DataParallelError

PLACES = 1024  # arrays that may be under way
RUN = 2**16  # elements that stay in a core's cache
YIELDS = 500  # before a rank that waits sleeps
NAP_S = 5e-5
FILLED, SUMMED, TOKEN, HEADER = 0, 1, 2, 8  # int64 numbers at the beginning of a rank's table
ENTRY = 3  # numbers of an array behind that: descriptor and offset of its place, and its bytes
TABLE = HEADER + ENTRY * PLACES

_lock = threading.Lock()


class Windows:
    """The shared memory of a machine's ranks, and what is summed in it.

    Args:
        ranks: The ranks of this machine.
        rank: This rank.
        all_gather_object: Gives each of them what all have. All must make windows together.

    Attributes:
        ranks: The same.
        place: Where this rank is among them.
        writes_to_all: Whether a sum goes to the arrays of all, or to that of the first alone.

    Raises:
        OSError: On all ranks, if one has none to share, or cannot reach that of another.
    """

    writes_to_all = True

    def __init__(self, ranks: Sequence[int], rank: int, all_gather_object: Callable):
        self.ranks, self.place = list(ranks), list(ranks).index(rank)
        self._memory = SharedMemory()
        token, descriptor, problem = uuid.uuid4().int >> 65, -1, None
        try:
            self._own = self._memory.take(TABLE, np.int64)  # the first, so it begins where its segment does
            self._own[:] = 0
            self._own[TOKEN] = token
            descriptor, _ = self._memory.place_of(self._own)
        except OSError as error:
            problem = f"rank {rank}: {error}"
        self._processes = all_gather_object((os.getpid(), descriptor, token))
        self._segments: dict[tuple[int, int], Segment] = {}  # as ranks see each other's, by rank and descriptor
        self._tables = []
        try:
            for peer, (process, descriptor, told) in enumerate([] if problem else self._processes):
                if peer == self.place:
                    self._tables.append(self._own)
                    continue
                segment = self._segments[peer, descriptor] = Segment.of_process(process, descriptor)
                self._tables.append(segment.array(0, TABLE, np.int64))
                if self._tables[peer][TOKEN] != told:
                    raise OSError(f"process {process} is another's")
        except (OSError, ValueError, IndexError) as error:
            problem = problem or f"rank {rank}: {error}"
        if problem := next(filter(None, all_gather_object(problem)), None):
            raise OSError(problem)
        self._waiting: deque[WindowWork] = deque()

    def take(self, size: int, dtype: np.dtype) -> np.ndarray:
        """An array that can be summed."""
        return self._memory.take(size, dtype)

    def holds(self, array: np.ndarray) -> bool:
        """Whether an array is one of ``take``, or a view of such."""
        return self._memory.place_of(array) is not None

    def start(self, array: np.ndarray, lengths: Sequence[int] | None = None) -> "WindowWork":
        """Start to sum an array; all ranks must start the same ones in the same order.

        Args:
            array: Of ``take``, or a view of such. Others write to it until the work is done.
            lengths: Elements of each rank's part, if each gets its part alone; None if all get all.
        """
        number = int(self._own[FILLED]) + 1
        self.finish(number - PLACES)
        self._own[entry_of(number)] = (*self._memory.place_of(array), array.nbytes)
        fence()
        self._own[FILLED] = number
        work = WindowWork(self, number, array, lengths)
        self._waiting.append(work)
        self.progress()
        return work

    def progress(self) -> None:
        """Add up what all ranks have filled. Never waits."""
        while self._waiting and self._have_all(FILLED, self._waiting[0].number):
            fence()
            self._waiting[0].add_up()
            fence()
            self._own[SUMMED] = self._waiting.popleft().number

    def is_finished(self, number: int) -> bool:
        """Whether all ranks have added up their parts of the array that was started as this one."""
        self.progress()
        return self._have_all(SUMMED, number)

    def finish(self, number: int) -> None:
        """Wait until it is so."""
        for _ in range(YIELDS):
            if self.is_finished(number):
                break
            os.sched_yield()
        while not self.is_finished(number):
            time.sleep(NAP_S)
        fence()

    def array_of(self, peer: int, number: int, like: np.ndarray) -> np.ndarray:
        """What the rank at a place sums under this number.

        Raises:
            DataParallelError: If that has another size.
        """
        if peer == self.place:
            return like
        descriptor, offset, num_bytes = self._tables[peer][entry_of(number)].tolist()
        if num_bytes != like.nbytes:
            raise DataParallelError(
                "Rank {rank} sums {own} bytes where rank {peer} sums {theirs}: one of them left a step before its end, "
                "as by an exception that it caught. Let all ranks compute the same steps.",
                rank=self.ranks[self.place],
                own=like.nbytes,
                peer=self.ranks[peer],
                theirs=num_bytes,
            )
        if (peer, descriptor) not in self._segments:
            self._segments[peer, descriptor] = Segment.of_process(self._processes[peer][0], descriptor)
        return self._segments[peer, descriptor].array(offset, like.size, like.dtype)

    @property
    def borrowed_bytes(self) -> int:
        """Memory of other ranks that the kernel counts as this one's, too."""
        return num_resident_bytes(self._segments.values())

    def _have_all(self, what, number):
        return all(table[what] >= number for table in self._tables)


class WindowWork(Work):
    """A sum in progress.

    Attributes:
        number: Which it is, from 1.
        array: What is summed, until the work is done.
    """

    def __init__(self, windows: Windows, number: int, array: np.ndarray, lengths: Sequence[int] | None):
        self._windows, self.number, self.array = windows, number, array
        place, num_ranks, size = windows.place, len(windows.ranks), array.size
        if lengths is None:
            self._begin, self._end = size * place // num_ranks, size * (place + 1) // num_ranks
            self._target = None
        else:
            self._end = sum(lengths[: place + 1])
            self._begin = self._end - lengths[place]
            self._target = np.empty(lengths[place], array.dtype)

    def progress(self):
        """Add up what is due."""
        return self._windows.is_finished(self.number)

    def wait(self):
        """Wait for all ranks' parts."""
        self._windows.finish(self.number)
        if self._target is not None and self._target.size:
            self.part = self._target
        self.array = None

    def add_up(self) -> None:
        """Sum this rank's part of what all ranks have filled."""
        peers = range(len(self._windows.ranks))
        arrays = [self._windows.array_of(peer, self.number, self.array) for peer in peers]
        for begin in range(self._begin, self._end, RUN):
            runs = [array[begin : min(begin + RUN, self._end)] for array in arrays]
            add_by_tree(runs)
            if self._target is not None:
                self._target[begin - self._begin :][: runs[0].size] = runs[0]
            elif self._windows.writes_to_all:
                for other in runs[1:]:
                    other[...] = runs[0]


def entry_of(number: int) -> slice:
    """Where a rank's table tells of an array."""
    place = HEADER + ENTRY * (number % PLACES)
    return slice(place, place + ENTRY)


def add_by_tree(values: list[np.ndarray]) -> None:
    """Add arrays up in the order of a binomial tree; the sum is then in the first, the others are undefined."""
    distance = 1
    while distance < len(values):
        for rank in range(0, len(values) - distance, 2 * distance):
            np.add(values[rank], values[rank + distance], out=values[rank])
        distance *= 2


def fence() -> None:
    """What was written to memory before is seen by others before what is written later; the same of what is read.

    A lock that is left and entered again orders both ways (acquire and release of C11) on every processor.
    """
    with _lock:
        pass
    with _lock:
        pass
