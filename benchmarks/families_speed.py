"""How fast the families train, beside torch with the same models: rows per second of whole steps of both Trainers.

    python benchmarks/families_speed.py --torch PYTHON [--only FAMILY ...] [--rounds 2]

Models of 4 layers, 512 wide, trained with 8 rows of 128 tokens: in one process on one core, and on 2 ranks beside
torch's DistributedDataParallel and Gloo. Both sides are timed in turns. Writes
``benchmarks/results/families-speed_<cpu>_<date>.json`` and ``.md``. Wants an idle machine.
"""

import argparse
import statistics
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.programs.family_sizes import BATCH_SIZE, FAMILIES, NUM_TOKENS
from benchmarks.record import write_results
from benchmarks.speed import on_one_core, run, run_torch

STEPS, SIZE = 5, (BATCH_SIZE, NUM_TOKENS)
LEFT_OUT = ("BERT-base", "BERT-mini", "Llama-mini")
RANKS = (1, 2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", required=True, help="a Python that has torch, transformers and accelerate")
    parser.add_argument(
        "--only", nargs="+", choices=FAMILIES, default=[name for name in FAMILIES if name not in LEFT_OUT]
    )
    parser.add_argument("--rounds", type=int, default=2)
    wanted = parser.parse_args()
    seconds = {}
    for family in track(wanted.only, "families"):
        sides = seconds[family] = {side: {ranks: [] for ranks in RANKS} for side in ("plugin", "torch")}
        for _ in range(wanted.rounds):
            for ranks in RANKS:
                sides["plugin"][ranks].append(train(family, ranks))
                sides["torch"][ranks].append(train_peer(wanted.torch, family, ranks))
        print(row(family, sides), flush=True)
    write_results("families-speed", {"seconds": seconds}, summary(seconds))


def train(family, ranks):
    """Seconds of the slowest rank's steps: the median, and the fastest, which the machine's other work slows least."""
    with tempfile.TemporaryDirectory() as name, on_one_core() if ranks == 1 else nullcontext():
        return steps_of(run(Path(name, "job"), "family_steps", family, STEPS, *SIZE, ranks=ranks))


def train_peer(python, family, ranks):
    """The same of torch."""
    with tempfile.TemporaryDirectory() as name:
        return steps_of(run_torch(python, Path(name, "job"), family, STEPS, *SIZE, ranks))


def steps_of(of_ranks):
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
