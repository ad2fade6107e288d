"""Memory that the ranks of a machine share: each takes arrays from its own, and reads those of others where they lie.

It is anonymous (``memfd_create``): no file of /dev/shm that can be too small, or stay behind a rank that was killed.
Other processes of the user open it by /proc.
"""

import bisect
import mmap
import os
import weakref
from collections.abc import Iterable
from pathlib import Path

import numpy as np

SEGMENT_BYTES = 64 * 2**20
CACHE_LINE = 64


class Segment:
    """A piece of memory of this process, or of another that told its number.

    Args:
        descriptor: Its file descriptor, in this process.

    Attributes:
        descriptor: The same.
        memory: It, as bytes.
    """

    def __init__(self, descriptor: int):
        self.descriptor = descriptor
        self._mapped = mmap.mmap(descriptor, 0)
        self.memory = np.frombuffer(self._mapped, np.uint8)
        self._begin = self.memory.ctypes.data

    @classmethod
    def new(cls, num_bytes: int) -> "Segment":
        """One of this process, full of zeros; it takes up memory where it is written to."""
        descriptor = os.memfd_create("mindnlp_dp")
        os.ftruncate(descriptor, num_bytes)
        return cls(descriptor)

    @classmethod
    def of_process(cls, process: int, descriptor: int) -> "Segment":
        """One of another process of this machine.

        Raises:
            OSError: If that is out of reach, as in another container.
        """
        opened = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
        try:
            return cls(opened)
        finally:
            os.close(opened)

    def array(self, offset: int, size: int, dtype: np.dtype) -> np.ndarray:
        """An array in it. The memory is as long there as the array and its views."""
        return np.frombuffer(self._mapped, dtype, size, offset)

    def offset_of(self, array: np.ndarray) -> int | None:
        """Where in it an array begins; None if it lies elsewhere."""
        offset = array.ctypes.data - self._begin
        return offset if 0 <= offset < self.memory.size else None


def num_resident_bytes(segments: Iterable[Segment]) -> int:
    """How much of them this process has touched; the kernel counts that as this process's memory, whoever owns it."""
    begins, total, is_one = {segment.memory.ctypes.data for segment in segments}, 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name = line.split(" ", 1)[0]
        if "-" in name:
            is_one = int(name.split("-")[0], 16) in begins
        elif is_one and name == "Rss:":
            total += int(line.split()[1]) * 1024
    return total


class SharedMemory:
    """Arrays of this process that others may read and write. One that nobody uses any more makes room for others."""

    def __init__(self):
        self._segments: list[Segment] = []
        self._free: list[list[tuple[int, int]]] = []  # of each segment, runs of bytes in order: begin and end

    def take(self, size: int, dtype: np.dtype) -> np.ndarray:
        """A new array; what is in it is undefined.

        Args:
            size: Its elements.
            dtype: Their type.
        """
        needed = max(1, -(-size * np.dtype(dtype).itemsize // CACHE_LINE)) * CACHE_LINE
        number, begin = self._find(needed)
        array = self._segments[number].array(begin, size, dtype)
        weakref.finalize(array, self._give_back, number, begin, begin + needed).atexit = False
        return array

    def place_of(self, array: np.ndarray) -> tuple[int, int] | None:
        """Descriptor and offset by which another process finds an array; None if it does not lie in this memory."""
        for segment in self._segments:
            if (offset := segment.offset_of(array)) is not None:
                return segment.descriptor, offset
        return None

    def _find(self, needed):
        for number, runs in enumerate(self._free):
            for index, (begin, end) in enumerate(runs):
                if end - begin >= needed:
                    runs[index : index + 1] = [(begin + needed, end)] if end - begin > needed else []
                    return number, begin
        self._segments.append(Segment.new(max(needed, SEGMENT_BYTES)))
        self._free.append([(0, self._segments[-1].memory.size)])
        return self._find(needed)

    def _give_back(self, number, begin, end):
        runs = self._free[number]
        index = bisect.bisect(runs, (begin, end))
        if index < len(runs) and runs[index][0] == end:
            end = runs.pop(index)[1]
        if index and runs[index - 1][1] == begin:
            index -= 1
            begin = runs.pop(index)[0]
        runs.insert(index, (begin, end))
