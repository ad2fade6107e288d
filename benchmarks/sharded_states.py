"""Memory, step time and bytes sent of BERT-base by stage of ZeRO, on 2, 3 and 4 ranks: ``make zero``.

    python benchmarks/sharded_states.py [--ranks 2 3 4] [--rounds 3]

Memory is measured with a row of 16 tokens, where what stages share out dominates. Step times are those of 2 ranks with
8 x 128 tokens, in turns; more ranks than cores say nothing of time. Writes
``benchmarks/results/sharded-states_<cpu>_<date>.json``, ``.md`` and ``.png``. Wants an idle machine.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from matplotlib.figure import Figure
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from tests.harness import run_ranks_successfully

PROGRAM = Path(__file__).parent / "programs/sharded_steps.py"
STAGES = (0, 1, 2, 3)
FOR_MEMORY, FOR_TIME = (6, 1, 16), (8, 8, 128)  # steps, rows, tokens
MEGABYTE = 2**20
ADAMW_BYTES = 8


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    jobs = [(ranks, stage, FOR_MEMORY) for ranks in wanted.ranks for stage in STAGES]
    jobs += [(2, stage, FOR_TIME) for _ in range(wanted.rounds) for stage in STAGES]
    memory, seconds = [], {stage: [] for stage in STAGES}
    for ranks, stage, sizes in track(jobs, "sharded states"):
        found = train(ranks, stage, *sizes)
        if sizes == FOR_MEMORY:
            memory.append({"ranks": ranks, "stage": stage, **{k: v for k, v in found.items() if k != "seconds"}})
        else:
            seconds[stage].append(statistics.median(found["seconds"]))
    path = write_results("sharded-states", {"memory": memory, "seconds": seconds}, summary(memory, seconds))
    draw(memory).savefig(f"{path}.png", dpi=150)


def train(ranks, stage, num_steps, batch_size, num_tokens):
    """The largest of all ranks' numbers, and the seconds of the slowest."""
    with tempfile.TemporaryDirectory() as name:
        output = Path(name)
        run_ranks_successfully(
            PROGRAM, output, stage, num_steps, batch_size, num_tokens,
            ranks=ranks, backend="mpi", log_dir=output / "logs", timeout=1200,
        )  # fmt: skip
        found = [json.loads((output / f"rank{rank}.json").read_text()) for rank in range(ranks)]
    return {what: max(each[what] for each in found) for what in found[0]}


def summary(memory, seconds):
    plain = statistics.median(seconds[0]) if seconds[0] else None
    lines = [
        "BERT-base, AdamW, over MPI. Largest of all ranks; MB are 2**20 bytes. What a rank sends in a step is that of "
        "a ring, over the bytes of the model.\n",
        "| ranks | stage | states, MB | of 8/N bytes a parameter | peak, MB | sent for sums | sent for parameters |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for job in memory:
        formula = ADAMW_BYTES * job["parameters"] / (job["ranks"] if job["stage"] else 1)
        lines.append(
            f"| {job['ranks']} | {job['stage']} | {job['state_bytes'] / MEGABYTE:,.0f} | "
            f"{job['state_bytes'] / formula:.3f} | {job['peak_bytes'] / MEGABYTE:,.0f} | "
            f"{sent_for_sums(job):.3f} | {(job['ranks'] - 1) * job['gathered_bytes'] / model_bytes(job):.3f} |"
        )
    if plain:
        ratios = [f"stage {stage} {statistics.median(seconds[stage]) / plain:.3f}" for stage in STAGES[1:]]
        lines.append(
            f"\nA step of 2 ranks, 8 x 128 tokens each, over one of plain data parallelism ({plain:.2f} s): "
            f"{', '.join(ratios)} (medians of {len(seconds[0])} runs, in turns)."
        )
    return "\n".join(lines)


def sent_for_sums(job):
    """Bytes that each rank of a ring sends in a step to sum gradients, over those of the model."""
    passes = 2 * job["all_reduced_bytes"] + job["reduce_scattered_bytes"]
    return (job["ranks"] - 1) / job["ranks"] * passes / model_bytes(job)


def model_bytes(job):
    """Bytes of the parameters."""
    return 4 * job["parameters"]


def draw(memory):
    """Peak and states by number of ranks, a line for each stage."""
    figure = Figure(figsize=(7, 3), layout="constrained")
    for axes, what, title in zip(
        figure.subplots(1, 2), ("state_bytes", "peak_bytes"), ("optimizer states, MB", "peak of a rank, MB")
    ):
        for stage in STAGES:
            of_stage = [job for job in memory if job["stage"] == stage]
            ranks, sizes = [job["ranks"] for job in of_stage], [job[what] / MEGABYTE for job in of_stage]
            axes.plot(ranks, sizes, marker="o", label=f"zero_stage={stage}")
        axes.set(title=title, xlabel="ranks", xticks=sorted({job["ranks"] for job in memory}), ylim=(0, None))
        axes.legend()
    return figure


if __name__ == "__main__":
    main()
