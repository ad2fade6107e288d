"""How fast the families train, beside torch with the same models: rows per second of whole steps of both Trainers.

    python benchmarks/families_speed.py --torch PYTHON [--only FAMILY ...] [--rounds 2]

Models of 4 layers, 512 wide, trained with 8 rows of 128 tokens: in one process on one core, and on 2 ranks beside
torch's DistributedDataParallel and Gloo. Both sides are timed in turns; two more steps of one process are profiled,
which says where its time goes. Writes
``benchmarks/results/families-speed_<cpu>_<date>.json`` and ``.md``. Wants an idle machine.
"""

import argparse
import statistics
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

import numpy  # noqa: F401  (loads its BLAS)
import threadpoolctl
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.programs.family_sizes import BATCH_SIZE, FAMILIES, NUM_TOKENS
from benchmarks.record import write_results
from benchmarks.speed import on_one_core, run, run_torch

STEPS, SIZE = 5, (BATCH_SIZE, NUM_TOKENS)
RANKS = (1, 2)
NUM_SHOWN = 8


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", required=True, help="a Python that has torch, transformers and accelerate")
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=[*FAMILIES])
    parser.add_argument("--rounds", type=int, default=2)
    wanted = parser.parse_args()
    seconds, profiles = {}, {}
    for family in track(wanted.only, "families"):
        sides = seconds[family] = {side: {ranks: [] for ranks in RANKS} for side in ("plugin", "torch")}
        for _ in range(wanted.rounds):
            for ranks in RANKS:
                of_ranks = {"plugin": train(family, ranks), "torch": train_peer(wanted.torch, family, ranks)}
                for side, left in of_ranks.items():
                    sides[side][ranks].append(steps_of(left))
                if ranks == 1:
                    profiles[family] = {side: left[0]["profile"] for side, left in of_ranks.items()}
        print(row(family, sides), flush=True)
    data = {"kernels of NumPy's BLAS": kernels(), "seconds": seconds, "profiles": profiles}
    write_results("families-speed", data, summary(seconds) + "\n\n" + shares(profiles))


def train(family, ranks):
    """What each rank left of the plugin."""
    with tempfile.TemporaryDirectory() as name, on_one_core() if ranks == 1 else nullcontext():
        return run(Path(name, "job"), "family_steps", family, STEPS, *SIZE, ranks=ranks)


def train_peer(python, family, ranks):
    """The same of torch."""
    with tempfile.TemporaryDirectory() as name:
        return run_torch(python, Path(name, "job"), family, STEPS, *SIZE, ranks)


def steps_of(of_ranks):
    """Seconds of the slowest rank's steps: the median, and the fastest, which the machine's other work slows least."""
    ways = {"median": statistics.median, "fastest": min}
    return {name: max(way(rank["seconds"]) for rank in of_ranks) for name, way in ways.items()}


def summary(seconds):
    lines = [
        f"Whole steps of {BATCH_SIZE} rows on each rank, in seconds, and rows per second over torch's: of the median "
        "step, and of the fastest.\n",
        "| family | one process | torch | ratio | fastest | 2 ranks | torch, DDP and Gloo | ratio | fastest |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    return "\n".join([*lines, *(row(family, sides) for family, sides in seconds.items())])


def shares(profiles):
    """Where the time of a step goes: the phases, and the operators that take most."""
    lines = [
        f"Shares of a step of one process, with the {kernels()} kernels of NumPy's BLAS.\n",
        "| family | phases | operators | torch's operators |",
        "| --- | --- | --- | --- |",
    ]
    for family, sides in profiles.items():
        of_sides = (sides["plugin"]["phases"], sides["plugin"]["operators"], sides["torch"]["operators"])
        lines.append(" | ".join([f"| {family}", *map(largest, of_sides)]) + " |")
    return "\n".join(lines)


def largest(shares):
    ordered = sorted(shares.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {100 * share:.1f}%" for name, share in ordered[:NUM_SHOWN])


def kernels():
    """For which processor NumPy's BLAS multiplies; OPENBLAS_CORETYPE may have named another than the machine's."""
    found = threadpoolctl.ThreadpoolController().select(user_api="blas").info()
    return ", ".join(sorted({library["architecture"] for library in found}))


def row(family, sides):
    cells = []
    for ranks in RANKS:
        ours, torch = (
            {
                "median": statistics.median(steps["median"] for steps in sides[side][ranks]),
                "fastest": min(steps["fastest"] for steps in sides[side][ranks]),
            }
            for side in ("plugin", "torch")
        )
        ratios = [torch[way] / ours[way] for way in ("median", "fastest")]
        cells += [f"{number:.2f}" for number in (ours["median"], torch["median"], *ratios)]
    return " | ".join(["| " + family, *cells]) + " |"


if __name__ == "__main__":
    main()
