"""What a snapshot after each step costs BERT-base on 2 ranks, beside none: ``python benchmarks/snapshot_cost.py``.

Runs alternate. Writes ``benchmarks/results/snapshot-cost_<cpu>_<date>.json`` and ``.md``. Wants an idle machine.
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from tests.harness import run_ranks_successfully

PROGRAM = Path(__file__).parent / "programs/snapshot_steps.py"
ROUNDS, NUM_STEPS = 2, 8


def main():
    found = {every: {"steps": [], "stops": []} for every in (0, 1)}
    for _ in track(range(ROUNDS), "snapshot cost"):
        for every, times in found.items():
            with tempfile.TemporaryDirectory() as name:
                output = Path(name)
                run_ranks_successfully(
                    PROGRAM, output, NUM_STEPS,
                    ranks=2, backend="mpi", log_dir=output / "logs", timeout=900,
                    env={"MINDNLP_DP_SNAPSHOT_EVERY": str(every)},
                )  # fmt: skip
                for what, seconds in json.loads((output / "steps.json").read_text()).items():
                    times[what] += seconds
    mean = {
        every: {what: statistics.mean(seconds) for what, seconds in times.items()} for every, times in found.items()
    }
    stop = mean[1]["stops"] - mean[0]["stops"]
    write_results(
        "snapshot-cost",
        {"with_snapshots": found[1], "without": found[0]},
        f"BERT-base, 2 ranks over MPI, 8 x 128 tokens each, a snapshot after each step: training stops for {stop:.3f} "
        f"s, {stop / mean[0]['steps']:.1%} of a step of {mean[0]['steps']:.2f} s (means over {ROUNDS} runs of "
        f"{NUM_STEPS} steps). With the cores that writing takes, a step takes "
        f"{mean[1]['steps'] / mean[0]['steps']:.3f} of its time.",
    )


if __name__ == "__main__":
    main()
