"""What ``hosts.py`` starts on each host to time all-reduces before and after the link is slowed.

    python all_reduces.py OUTPUT SIZE...

Rank 0 leaves the median seconds for each SIZE (bytes) in ``OUTPUT/as_it_is.json``; then, when somebody has made
``OUTPUT/is_slow``, in ``OUTPUT/slow.json``.
"""

import json
import sys
import time
from pathlib import Path

import mindnlp_dp_plugin as dp
from mindnlp_dp_plugin import collectives
from mindnlp_dp_plugin.doctor.on_ranks.all_reduce import seconds

OUTPUT, SIZES = Path(sys.argv[1]), [int(size) for size in sys.argv[2:]]


def measure(name):
    times = [seconds(collectives.current(), size) for size in SIZES]
    if dp.is_main_process():
        unfinished = OUTPUT / f"{name}.part"
        unfinished.write_text(json.dumps(times))
        unfinished.rename(OUTPUT / f"{name}.json")


measure("as_it_is")
while dp.is_main_process() and not (OUTPUT / "is_slow").exists():
    time.sleep(0.05)
dp.barrier()
measure("slow")
