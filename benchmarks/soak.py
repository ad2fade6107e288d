"""Train for half an hour and see that nothing grows: ``make soak``.

    python benchmarks/soak.py [--minutes 30] [--backend mpi] [--nproc 2]

A small model trains, evaluates and saves without a pause. Every few seconds each rank notes its memory, its open files
and its threads, and the ranks compare their parameters. After the first minute memory may grow by 1% over what the same
training takes in one process without the plugin (MindSpore keeps a little at each operator), open files and threads not
at all. Results are written to ``benchmarks/results/soak_<cpu>_<date>.json``, ``.md`` and ``.png``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from tests.harness import REPOSITORY, run_ranks_successfully

matplotlib.use("agg")
from matplotlib import pyplot

PROGRAM = Path(__file__).parent / "programs/soaking.py"
WARM_UP_S = 60
MAX_GROWTH = 0.01
ALONE_S = 300
ENV = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
WINDOW = 12  # samples: one alone may catch a batch being read


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--backend", default="mpi")
    parser.add_argument("--nproc", type=int, default=2)
    wanted = parser.parse_args()
    seconds = wanted.minutes * 60
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-soak-") as name:
        output = Path(name)
        job = dict(ranks=wanted.nproc, backend=wanted.backend, log_dir=output / "logs", timeout=2 * seconds + 300)
        run_ranks_successfully(PROGRAM, output, seconds, **job)
        ranks = [samples_of(output, rank) for rank in range(wanted.nproc)]
        alone = Path(name, "alone")
        alone.mkdir()
        subprocess.run([sys.executable, PROGRAM, alone, str(min(seconds, ALONE_S)), "bridged"], check=True, env=ENV)
        mb_per_step = growth_per_step(samples_of(alone, 0))
    verdicts = [verdict(samples, mb_per_step) for samples in ranks]
    path = write_results("soak", {**vars(wanted), "verdicts": verdicts, "samples": ranks}, summary(wanted, verdicts))
    plot(ranks, path.with_suffix(".png"))
    sys.exit(not all(rank["is_flat"] for rank in verdicts))


def samples_of(output, rank):
    return [json.loads(line) for line in (output / f"samples.rank{rank}.jsonl").read_text().splitlines()]


def middles(samples):
    """Each quantity after the warm-up, and at the end."""
    warm = [sample for sample in samples if sample["seconds"] >= WARM_UP_S]
    return {
        what: [statistics.median(sample[what] for sample in part) for part in (warm[:WINDOW], warm[-WINDOW:])]
        for what in ("step", "rss_mb", "num_fds", "num_threads")
    }


def growth_per_step(samples):
    """MB."""
    middle = middles(samples)
    (first_step, last_step), (first, last) = middle["step"], middle["rss_mb"]
    return (last - first) / (last_step - first_step)


def verdict(samples, mb_per_step_alone):
    """How much each quantity has grown from the end of the warm-up to the end."""
    middle = middles(samples)
    mb_per_step = growth_per_step(samples)
    num_steps = middle["step"][1] - middle["step"][0]
    growth = (mb_per_step - mb_per_step_alone) * num_steps / middle["rss_mb"][0]
    others_are_flat = all(middle[what][1] <= middle[what][0] for what in ("num_fds", "num_threads"))
    return {
        **middle,
        "kb_per_step": mb_per_step * 1024,
        "kb_per_step_alone": mb_per_step_alone * 1024,
        "growth": growth,
        "num_steps": samples[-1]["step"],
        "num_checks": len(samples),
        "is_flat": growth < MAX_GROWTH and others_are_flat,
    }


def summary(wanted, verdicts):
    lines = [
        f"{wanted.minutes:g} minutes, {wanted.nproc} ranks, {wanted.backend}; from the first minute's end to the end.",
        "",
        "| rank | steps | memory MB | KB a step | KB a step in one process without the plugin | growth beyond that "
        "| open files | threads | checks that replicas are equal |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for rank, of_rank in enumerate(verdicts):
        memory, files, threads = (
            " to ".join(f"{value:.0f}" for value in of_rank[what]) for what in ("rss_mb", "num_fds", "num_threads")
        )
        lines.append(
            f"| {rank} | {of_rank['num_steps']} | {memory} | {of_rank['kb_per_step']:.1f} | "
            f"{of_rank['kb_per_step_alone']:.1f} | {of_rank['growth']:+.2%} | {files} | {threads} | "
            f"{of_rank['num_checks']}, all equal |"
        )
    return "\n".join(lines)


def plot(ranks, path):
    figure, axes = pyplot.subplots(3, sharex=True, figsize=(8, 7), layout="constrained")
    for axis, (what, label) in zip(
        axes, {"rss_mb": "memory, MB", "num_fds": "open files", "num_threads": "threads"}.items()
    ):
        for rank, samples in enumerate(ranks):
            minutes = [sample["seconds"] / 60 for sample in samples]
            axis.plot(minutes, [sample[what] for sample in samples], label=f"rank {rank}")
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[0].legend()
    axes[-1].set_xlabel("minutes")
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
