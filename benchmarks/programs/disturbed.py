"""Ranks that meet again and again and say much, until somebody disturbs them: ``python disturbed.py FOLDER ROUNDS``.

``ROUNDS`` may be several numbers with commas between them, one for each rank. ``CHILD`` is Python that rank 1 runs in a
process of its own in the meantime; ``LAST`` is what each does at the end.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import mindnlp_dp_plugin as dp

FOLDER, RANK = Path(sys.argv[1]), dp.get_rank()
NUM_ROUNDS = int((sys.argv[2].split(",") * dp.get_world_size())[RANK])

if __name__ == "__main__":
    (FOLDER / f"ready_{RANK}").write_text(str(os.getpid()))
    for number in range(NUM_ROUNDS):
        if number == 5 and RANK == 1 and "CHILD" in os.environ:
            subprocess.run([sys.executable, "-c", os.environ["CHILD"]], check=True)
        dp.barrier()
        print("." * 4096, flush=True)
        time.sleep(0.02)
    exec(os.environ.get("LAST", ""))
