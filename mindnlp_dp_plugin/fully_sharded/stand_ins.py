"""What parameters hold while they are let go: the right shape, and nothing that may be read."""

import ctypes
import math
import mmap
from contextlib import suppress
from typing import Any

import mindspore
import numpy as np

from mindnlp_dp_plugin.ddp.bucket import is_on_cpu
from mindnlp_dp_plugin.errors import DataParallelError

MAP_NORESERVE = 0x4000  # Python's mmap names it from 3.13 on
mincore = ctypes.PyDLL(None).mincore  # microseconds, in which no other thread need run


class NotANumber:
    """NaN, in one memory for all: on devices, and where nobody tells what was read. What computes with it gives NaN.

    Args:
        named: All parameters that may be let go, by name.
    """

    def __init__(self, named: dict[str, Any]):
        self._loss, self._memories = None, {}
        for dtype in {parameter.dtype for parameter in named.values()}:
            largest = max(parameter.size for parameter in named.values() if parameter.dtype == dtype)
            self._memories[dtype] = (
                np.full(largest, math.nan, mindspore.dtype_to_nptype(dtype))
                if is_on_cpu()
                else mindspore.ops.full((largest,), math.nan, dtype=dtype)
            )

    def of(self, parameter) -> mindspore.Tensor:
        """A tensor of a parameter's shape and dtype."""
        values = self._memories[parameter.dtype][: parameter.size].reshape(parameter.shape)
        return mindspore.Tensor.from_numpy(values) if is_on_cpu() else values

    def require_unread(self, *losses) -> None:
        """Raise if the loss before this one is no number: a device has computed it by now. None follows the last."""
        for loss in losses:
            before, self._loss = self._loss, loss
            if before is None or math.isfinite(before.astype(mindspore.float32).item()):
                continue
            self._loss = None
            raise DataParallelError(
                "zero_stage=3: a loss is not finite. If it is finite with zero_stage=2, the script reads parameters "
                "of a module outside of its forward, where they are not whole: read them within "
                "mindnlp_dp_plugin.gathered_parameters(model), which all ranks must enter."
            )


class Untouched:
    """Memory that has no pages before something touches them: the kernel tells what was read, by whatever way.

    Args:
        named: All parameters that may be let go, by name.

    Raises:
        OSError: If this machine gives no such memory, or does not tell.
    """

    def __init__(self, named: dict[str, Any]):
        self._places, end = {}, 0
        for name, parameter in named.items():
            self._places[id(parameter)] = end, name
            end += -(-parameter.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
        self._memory = mmap.mmap(-1, end + mmap.PAGESIZE, flags=private)
        self._memory.madvise(mmap.MADV_NOHUGEPAGE)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        if self._first_touched() is not None or self._bytes[end] or self._first_touched() != end:
            raise OSError("the kernel does not tell")
        self._memory.madvise(mmap.MADV_DONTNEED)

    def of(self, parameter) -> mindspore.Tensor:
        """A tensor of a parameter's shape and dtype."""
        begin, _ = self._places[id(parameter)]
        values = self._bytes[begin : begin + parameter.nbytes].view(mindspore.dtype_to_nptype(parameter.dtype))
        return mindspore.Tensor.from_numpy(values.reshape(parameter.shape))

    def require_unread(self, *losses) -> None:
        """Raise if anything has read what a parameter holds meanwhile, or written to it, naming the first."""
        if (touched := self._first_touched()) is not None:
            self._memory.madvise(mmap.MADV_DONTNEED)
            raise DataParallelError(
                "zero_stage=3: {name} was read or changed outside of its module's forward, where it is sharded over "
                "the ranks and not whole. Do so within mindnlp_dp_plugin.gathered_parameters(model), which all ranks "
                "must enter.",
                name=[name for begin, name in self._places.values() if begin <= touched][-1],
            )

    def _first_touched(self):
        pages = np.empty(self._bytes.size // mmap.PAGESIZE, np.uint8)
        address, told = ctypes.c_void_p(self._bytes.ctypes.data), ctypes.c_void_p(pages.ctypes.data)
        if mincore(address, ctypes.c_size_t(self._bytes.size), told):
            raise OSError("mincore")
        page = int(pages.argmax())
        return page * mmap.PAGESIZE if pages[page] else None


def stand_ins_of(named: dict[str, Any]) -> Untouched | NotANumber:
    """What these parameters hold while they are let go."""
    if is_on_cpu():
        with suppress(OSError):
            return Untouched(named)
    return NotANumber(named)
