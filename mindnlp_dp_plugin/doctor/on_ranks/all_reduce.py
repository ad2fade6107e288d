"""What the ranks of the doctor run: all-reduces of three sizes, checked and timed.

    mindnlp-dp run --nproc 2 all_reduce.py RESULT

Rank 0 writes MB (2**20 bytes) of message per second, by size, to the JSON file RESULT.
"""

import json
import sys
from pathlib import Path

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.bench.timing import all_reduce_seconds

SIZES = {"1 KB": 2**10, "1 MB": 2**20, "16 MB": 2**24}  # bytes
NUM_ROUNDS = 7


def main(result: Path) -> None:
    """Measures each size, and leaves the result if this is rank 0."""
    group = collectives.current()
    speeds = {
        name: num_bytes / 2**20 / all_reduce_seconds(group, num_bytes, NUM_ROUNDS) for name, num_bytes in SIZES.items()
    }
    if dp.is_main_process():
        result.write_text(json.dumps(speeds))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
