"""Time a sum of gradients over the ranks of a machine: ``python sums.py OUTPUT``, on ranks over MPI.

Three ways, in turns: ``windows``, as training does; ``one_pass``, what any sum must read and write and nothing else;
``by_mpi``, in memory of each rank's own. Rank r leaves OUTPUT/sums.rank<r>.json, seconds by way.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.collectives.windows import RUN, Windows, add_by_tree

OUTPUT, ROUNDS, GRADIENTS, MEGABYTE = Path(sys.argv[1]), 21, 36, 2**20


def main():
    group = collectives.current()
    windows = Windows(range(group.world_size), group.rank, group.all_gather_object)
    size = int(group.bucket_cap_mb * MEGABYTE) // 4
    shared = [windows.take(size, np.float32) for _ in range(int(GRADIENTS / group.bucket_cap_mb))]
    own = [np.empty(size, np.float32) for _ in shared]
    works = [windows.start(bucket) for bucket in shared]
    dp.barrier()  # all have said where theirs are
    of_ranks = [[windows.array_of(peer, work.number, bucket) for peer in range(group.world_size)]
                for work, bucket in zip(works, shared)]  # fmt: skip
    for work in works:
        work.wait()
    ways = {
        "windows": lambda: wait_for([windows.start(bucket) for bucket in shared]),
        "one_pass": lambda: pass_once(of_ranks, size, group),
        "by_mpi": lambda: wait_for([group.all_reduce(bucket) for bucket in own]),
    }
    taken = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, run in ways.items():
            for bucket in (*shared, *own):
                bucket[:] = 1
            dp.barrier()
            began = time.perf_counter()
            run()
            dp.barrier()
            taken[way].append(time.perf_counter() - began)
            assert all((bucket == group.world_size).all() for bucket in (own if way == "by_mpi" else shared))
    (OUTPUT / f"sums.rank{group.rank}.json").write_text(json.dumps(taken))


def wait_for(works):
    for work in works:
        work.wait()


def pass_once(of_ranks, size, group):
    """This rank's part of all ranks' buckets is read once, and the sum is written to each once."""
    first, last = size * group.rank // group.world_size, size * (group.rank + 1) // group.world_size
    for arrays in of_ranks:
        for begin in range(first, last, RUN):
            runs = [array[begin : min(begin + RUN, last)] for array in arrays]
            add_by_tree(runs)
            for other in runs[1:]:
                other[...] = runs[0]


if __name__ == "__main__":
    main()
