"""How many bytes each rank sends for an all-reduce, counted by the kernel on its TCP sockets.

    python sent_bytes.py OUTPUT NUM_BYTES

Rank r leaves OUTPUT/sent_bytes.rank<r>.json. For engines that use TCP: MCCL, not MPI on one host.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import mindspore
import numpy as np

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives

OUTPUT, NUM_BYTES = Path(sys.argv[1]), int(sys.argv[2])
ROUNDS = 5


def sent():
    """Bytes and segments that the sockets of this process have sent."""
    sockets = subprocess.run(["ss", "-tinpHO"], capture_output=True, text=True, check=True).stdout.splitlines()
    mine = [line for line in sockets if f"pid={os.getpid()}," in line]
    return [sum(int(number) for line in mine for number in re.findall(rf"\b{what}:(\d+)", line))
            for what in ("bytes_sent", "data_segs_out")]  # fmt: skip


if __name__ == "__main__":
    group = collectives.current()
    buffers = [mindspore.Tensor(np.ones(NUM_BYTES // 4, np.float32)) for _ in range(ROUNDS + 1)]
    group.all_reduce(buffers.pop()).wait()  # opens connections
    group.barrier()
    before = sent()
    for buffer in buffers:
        group.all_reduce(buffer).wait()
    after = sent()
    counted = [(end - begin) / ROUNDS for begin, end in zip(before, after)]
    (OUTPUT / f"sent_bytes.rank{dp.get_rank()}.json").write_text(json.dumps(counted))
