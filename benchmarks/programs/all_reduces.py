"""What ``hosts.py`` starts on each host to time all-reduces.

    python all_reduces.py OUTPUT SIZE...

Rank 0 leaves the seconds for each SIZE (bytes), of the slowest rank, in ``OUTPUT/seconds.json``.
"""

import json
import sys
import time
from pathlib import Path

import mindspore
import numpy as np

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives

OUTPUT, SIZES = Path(sys.argv[1]), [int(size) for size in sys.argv[2:]]
NUM_ROUNDS = 8


def seconds(group, num_bytes):
    """One after the other: a barrier in between would let ranks start as far apart as the link is long."""
    values = np.full(num_bytes // 4, group.rank + 1, np.float32)
    buffer = values if group.uses_numpy else mindspore.Tensor(values)
    began = None
    for number in range(NUM_ROUNDS + 1):
        if number == 1:  # the first lets TCP find out how fast it may send
            began = time.perf_counter()
        group.all_reduce(buffer).wait()
        summed = buffer if group.uses_numpy else buffer.asnumpy()
    took = (time.perf_counter() - began) / NUM_ROUNDS
    expected = sum(range(1, group.world_size + 1)) * group.world_size**NUM_ROUNDS
    assert (summed == expected).all(), f"an all-reduce of {num_bytes} bytes is wrong"
    return max(dp.all_gather_object(took))


times = [seconds(collectives.current(), size) for size in SIZES]
if dp.is_main_process():
    (OUTPUT / "seconds.json").write_text(json.dumps(times))
