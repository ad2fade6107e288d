"""How long training stands still for a checkpoint of BERT-base: written at once, and while training goes on.

    python benchmarks/checkpoint_stall.py

Trains in one process, on 8 x 64 tokens, and saves every third step. Writes
``benchmarks/results/checkpoint-stall_<hardware>_<date>.json`` and ``.md``. Wants an idle machine.
"""

import statistics
import subprocess
import sys
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results

ROUNDS = 3
PROGRAM = Path(__file__).parent / "programs/saves.py"


def main():
    stalls, steps_after = {"0": [], "1": []}, {"0": [], "1": []}
    for _ in track(range(ROUNDS), "checkpoint stall"):
        for way in stalls:
            printed = subprocess.run(
                [sys.executable, PROGRAM, way], capture_output=True, text=True, check=True
            ).stdout.splitlines()[-1]
            stall, with_save, without = map(float, printed.split())
            stalls[way].append(stall)
            steps_after[way].append(with_save / without)
    at_once, later = (statistics.median(stalls[way]) for way in ("0", "1"))
    slower = {way: statistics.median(steps_after[way]) for way in stalls}
    write_results(
        "checkpoint-stall",
        {"stalls": stalls, "steps_after": steps_after},
        f"A checkpoint of BERT-base stops training for {later:.2f} s with async_save=True, and for {at_once:.2f} s "
        f"without: {later / at_once:.1%}. The step after it takes {slower['1']:.2f} of the time of others, without "
        f"async_save {slower['0']:.2f} (medians of {ROUNDS}).",
    )


if __name__ == "__main__":
    main()
