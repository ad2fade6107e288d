"""What the ranks of the doctor run: all-reduces of three sizes, checked and timed.

    mindnlp-dp run --nproc 2 all_reduce.py RESULT

Rank 0 writes MB (2**20 bytes) of message per second, by size, to the JSON file RESULT.
"""

import json
import statistics
import sys
import time
from pathlib import Path

import mindspore
import numpy as np

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives

SIZES = {"1 KB": 2**10, "1 MB": 2**20, "16 MB": 2**24}  # bytes
NUM_ROUNDS = 7


def seconds(group, num_bytes: int) -> float:
    """The median time of an all-reduce of float32 numbers. To be called on all ranks.

    Raises:
        DataParallelError: If a sum is wrong.
    """
    times = []
    for _ in range(NUM_ROUNDS):
        values = np.full(num_bytes // 4, group.rank + 1, np.float32)
        buffer = values if group.on_host else mindspore.Tensor(values)
        group.barrier()
        began = time.perf_counter()
        group.all_reduce(buffer).wait()
        summed = buffer if group.on_host else buffer.asnumpy()
        times.append(time.perf_counter() - began)
        expected = group.world_size * (group.world_size + 1) / 2
        if not (summed == expected).all():
            wrong = f"{summed.min()} to {summed.max()} where {expected} is right"
            raise dp.DataParallelError(
                f"an all-reduce of {num_bytes} bytes gave {wrong}: do not train over this engine."
            )
    return statistics.median(times)


def main(result: Path) -> None:
    """Measures each size, and leaves the result if this is rank 0."""
    group = collectives.current()
    speeds = {name: num_bytes / 2**20 / seconds(group, num_bytes) for name, num_bytes in SIZES.items()}
    if dp.is_main_process():
        result.write_text(json.dumps(speeds))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
