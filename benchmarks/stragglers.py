"""Whether even ranks are named as slow, and what comparing them costs: ``python benchmarks/stragglers.py``.

Two ranks make 1,000 steps of the same work over each engine. Ends with 1 if a rank is named as slow; on a machine with
other work one may truly be: leave it idle. Writes ``benchmarks/results/stragglers_<cpu>_<date>.json`` and ``.md``.
"""

import json
import sys
import tempfile
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from tests.harness import run_ranks_successfully

PROGRAM = Path(__file__).parent / "programs/even_steps.py"
NUM_STEPS = 1000
ENGINES = ("mpi", "mccl")


def main():
    found = {}
    for engine in track(ENGINES, "stragglers"):
        with tempfile.TemporaryDirectory() as name:
            output = Path(name)
            run_ranks_successfully(
                PROGRAM, output, NUM_STEPS, ranks=2, backend=engine, log_dir=output / "logs", timeout=900
            )
            found[engine] = json.loads((output / "even.json").read_text())
    rows = [
        (
            engine,
            f"{run['seconds'] / NUM_STEPS * 1000:.1f}",
            f"{run['named']} of {2 * run['windows']}",
            f"{max(run['ratios']):.3f}",
            f"{run['comparing'] / NUM_STEPS * 1e6:.0f}",
            f"{run['comparing'] / run['seconds']:.2%}",
        )
        for engine, run in found.items()
    ]
    titles = ("engine", "step, ms", "named as slow", "slower rank over the other", "comparing, us a step", "of a step")
    lines = [f"| {' | '.join(row)} |" for row in (titles, ["---"] * len(titles), *rows)]
    lines = [f"{NUM_STEPS} steps of the same work on 2 ranks, compared every 50.", "", *lines]
    write_results("stragglers", found, "\n".join(lines))
    sys.exit(any(run["named"] for run in found.values()))


if __name__ == "__main__":
    main()
