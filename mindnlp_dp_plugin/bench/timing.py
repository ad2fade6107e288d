"""Time an all-reduce, and check its sum."""

import statistics
import time

import mindspore
import numpy as np

from mindnlp_dp_plugin.collectives import Collective
from mindnlp_dp_plugin.errors import DataParallelError


def all_reduce_seconds(group: Collective, num_bytes: int, num_rounds: int) -> float:
    """The median time of an all-reduce of float32 numbers on this rank. All ranks must call it.

    Args:
        group: The ranks.
        num_bytes: Bytes of the message; a multiple of 4.
        num_rounds: Number of all-reduces to time.

    Raises:
        DataParallelError: If a sum is wrong.
    """
    times = []
    for _ in range(num_rounds):
        values = group.memory_for(num_bytes // 4, np.float32)
        values[:] = group.rank + 1
        buffer = values if group.uses_numpy else mindspore.Tensor(values)
        group.barrier()
        began = time.perf_counter()
        group.all_reduce(buffer).wait()
        summed = buffer if group.uses_numpy else buffer.asnumpy()
        times.append(time.perf_counter() - began)
        expected = group.world_size * (group.world_size + 1) / 2
        if not (summed == expected).all():
            raise DataParallelError(
                "an all-reduce of {num_bytes} bytes gave {smallest} to {largest}, not {expected}: do not train with "
                "this engine.",
                num_bytes=num_bytes,
                smallest=summed.min(),
                largest=summed.max(),
                expected=expected,
            )
    return statistics.median(times)
