"""A Llama of a billion parameters on 2 ranks of which none may hold it with its gradients and states (``make zero``).

    python benchmarks/larger_than_a_rank.py [--limit 10] [--layers 18]

Each rank lives in a memory cgroup of its own with ``--limit`` GB. AdamW in float32 asks for 16 bytes a parameter
plainly, for 10 with ``zero_stage=2`` on 2 ranks, and for 8 with ``zero_stage=3``. The job is to end with stage 3,
and to be ended by the kernel without. Writes ``benchmarks/results/larger-than-a-rank_<cpu>_<date>.json`` and ``.md``.
Needs root, cgroups and twice the limit of free memory.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from tests.harness import run_ranks

PROGRAM = Path(__file__).parent / "programs/large_model.py"
CGROUPS = Path("/sys/fs/cgroup/memory")
GIGABYTE = 2**30
RANKS = 2
TIMEOUT_S = 1800


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, default=10, help="GB of each rank")
    parser.add_argument("--layers", type=int, default=18)
    wanted = parser.parse_args()
    found = {stage: train(stage, wanted.layers, wanted.limit) for stage in (2, 3)}
    results = {"limit_gb": wanted.limit, "ranks": RANKS, "stages": found}
    write_results("larger-than-a-rank", results, summary(results))


def train(stage, layers, limit):
    """How the job ended, and what each rank has left."""
    with tempfile.TemporaryDirectory() as name:
        output, cgroups = Path(name), [CGROUPS / f"mindnlp_dp_{os.getpid()}_{rank}" for rank in range(RANKS)]
        try:
            for cgroup in cgroups:
                cgroup.mkdir()
                (cgroup / "memory.limit_in_bytes").write_text(str(int(limit * GIGABYTE)))
            ended = run_ranks(
                PROGRAM, output, stage, layers, *cgroups,
                ranks=RANKS, backend="mpi", log_dir=output / "logs", timeout=TIMEOUT_S,
            )  # fmt: skip
        finally:
            for cgroup in filter(Path.exists, cgroups):
                cgroup.rmdir()
        ranks = [json.loads(path.read_text()) for path in sorted(output.glob("rank*.json"))]
    return {"exit_status": ended.returncode, "said": ended.stderr.strip().splitlines()[:1], "ranks": ranks}


def summary(results):
    lines = [
        f"2 ranks over MPI, {results['limit_gb']:g} GB for each, AdamW in float32, a row of 64 tokens.\n",
        "| zero_stage | ended with | parameters | losses | peak of a rank, GB |",
        "| --- | --- | --- | --- | --- |",
    ]
    for stage, found in results["stages"].items():
        first, *_ = found["ranks"] or [None]
        losses = ", ".join(f"{loss:.4f}" for loss in first["losses"]) if first else "-"
        peak = f"{max(rank['peak_bytes'] for rank in found['ranks']) / GIGABYTE:.2f}" if first else "-"
        size = f"{first['parameters']:,}" if first else "-"
        how = "success" if found["exit_status"] == 0 else f"`{' '.join(found['said'])}`"
        lines.append(f"| {stage} | {how} | {size} | {losses} | {peak} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
