"""What recomputing activations saves and costs: a gradient of 16 layers, kept and recomputed in turns.

    python benchmarks/recompute.py

Writes ``benchmarks/results/recompute_<hardware>_<date>.json`` and ``.md``. Wants an idle machine.
"""

import statistics
import subprocess
import sys
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from tests.harness import PROGRAMS

ROUNDS = 5
WAYS = ("kept", "recomputed")


def main():
    runs = {way: [] for way in WAYS}
    for _ in track(range(ROUNDS), "recompute"):
        for way in WAYS:
            words = [sys.executable, PROGRAMS / "peak_memory.py", way]
            printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
            runs[way].append([float(number) for number in printed.split()[-2:]])
    (kept_mb, kept_s), (mb, s) = ([statistics.median(column) for column in zip(*runs[way])] for way in WAYS)
    summary = (
        f"A gradient of 16 layers for 8 x 256 tokens raises the peak of memory by {mb:.0f} MB in place of "
        f"{kept_mb:.0f} MB, and takes {s:.2f} s in place of {kept_s:.2f} s, {s / kept_s:.2f} of it (medians of "
        f"{ROUNDS})."
    )
    write_results("recompute", {"mb_and_seconds": runs}, summary)


if __name__ == "__main__":
    main()
