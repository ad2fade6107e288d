"""Ranks that meet again and again and say much, until somebody disturbs them: ``python disturbed.py FOLDER ROUNDS``."""

import os
import sys
import time
from pathlib import Path

import mindnlp_dp_plugin as dp

FOLDER, NUM_ROUNDS = Path(sys.argv[1]), int(sys.argv[2])

if __name__ == "__main__":
    (FOLDER / f"ready_{dp.get_rank()}").write_text(str(os.getpid()))
    for _ in range(NUM_ROUNDS):
        dp.barrier()
        print("." * 4096, flush=True)
        time.sleep(0.02)
