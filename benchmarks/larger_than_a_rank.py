"""A Llama of a billion parameters on 2 ranks of which none may hold it with its gradients and states (``make zero``).

    python benchmarks/larger_than_a_rank.py [--limit 9.5] [--layers 18]

Each rank lives in a memory cgroup of its own with ``--limit`` GB. SGD with momentum in float32 asks for 12 bytes a
parameter plainly, for 8 with ``zero_stage=2`` on 2 ranks, and for 6 with ``zero_stage=3``. With stage 3 the job trains,
evaluates and saves; a rank is killed, and the job goes on from the checkpoint and saves the model. Without, the kernel
ends it. Writes ``benchmarks/results/larger-than-a-rank_<cpu>_<date>.json`` and ``.md``. Needs root, cgroups, twice the
limit of free memory, and 15 GB of disk.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from tests.harness import run_ranks

PROGRAM = Path(__file__).parent / "programs/large_model.py"
CGROUPS = Path("/sys/fs/cgroup/memory")
GIGABYTE = 2**30
RANKS = 2
TIMEOUT_S = 1800
ENDING_S = 60
TOKENS, PASSES = 64, 4  # of a row; forward, the same again, and two products in backward


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit", type=float, default=9.5, help="GB of each rank")
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
                options=["--max-restarts", "1"] if stage == 3 else [],
            )  # fmt: skip
        finally:
            for cgroup in filter(Path.exists, cgroups):
                remove(cgroup)
        ranks = [json.loads(path.read_text()) for path in sorted(output.glob("rank*.json"))]
        sizes = {path.name: path.stat().st_size for path in output.glob("saved/*.safetensors")}
    said = [line for line in ended.stderr.splitlines() if line.startswith("mindnlp-dp") and str(output) not in line]
    return {"exit_status": ended.returncode, "said": said, "ranks": ranks, "saved": sizes}


def remove(cgroup):
    """What it held may still be ending: the kernel gives gigabytes back."""
    for _ in range(ENDING_S):
        with suppress(OSError):
            return cgroup.rmdir()
        time.sleep(1)


def summary(results):
    lines = [
        f"2 ranks over MPI, {results['limit_gb']:g} GB for each, SGD with momentum in float32, a row of 64 tokens. "
        "With stage 3 a rank is killed behind the checkpoint of step 2, and the job goes on from it.\n",
        "| zero_stage | ended with | restarts | parameters | losses from there on | eval_loss | peak of a rank, GB |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for stage, found in results["stages"].items():
        first, *_ = found["ranks"] or [None]
        if first is None:
            lines.append(f"| {stage} | `{found['said'][0]}` | - | - | - | - | - |")
            continue
        losses = ", ".join(f"{loss:.4f}" for loss in first["losses"])
        peak = max(rank["peak_bytes"] for rank in found["ranks"]) / GIGABYTE
        lines.append(
            f"| {stage} | {'success' if found['exit_status'] == 0 else found['said'][0]} | {first['restarts']} | "
            f"{first['parameters']:,} | {losses} | {first['eval_loss']:.4f} | {peak:.2f} |"
        )
        lines += ["", *story(found["ranks"])]
    return "\n".join(lines)


def story(ranks):
    """Peaks as they grew, and the seconds of a step beside what its products take at least."""
    first = ranks[0]
    peaks = [f"{what} {max(rank['peaks'][what] for rank in ranks) / GIGABYTE:.2f}" for what in first["peaks"]]
    bound = 2 * PASSES * TOKENS * first["parameters"] / first["gigaflops"] / 1e9
    seconds = ", ".join(f"{step:.1f}" for step in first["seconds"])
    return [
        f"Peaks of the larger rank since the restart, GB: {', '.join(peaks)}.",
        "",
        f"Seconds of its steps: {seconds}. Its products alone take {bound:.1f} s on one core at "
        f"{first['gigaflops']:.0f} GFLOPS, and each step gathers the parameters twice.",
    ]


if __name__ == "__main__":
    main()
