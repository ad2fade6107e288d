"""Kill ranks at random, with a snapshot after each step, and see what is lost: ``make restarts``.

    python benchmarks/restarts.py [--kills 100] [--seed 0] [--torch PYTHON]

Jobs of two ranks train without checkpoints on disk (``programs/killed_often.py``) and lose a rank ten times each, at a
random moment, by SIGKILL, SIGSEGV or an exception. They must end as one that was left alone, to the last bit, and no
kill may cost more than one step that was done. Beside: a script that saves each step under torchrun, killed likewise.
Writes ``benchmarks/results/restarts_<cpu>_<date>.json`` and ``.md``. Times are part of it: leave the machine idle.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results
from tests.harness import run_ranks

PROGRAMS = Path(__file__).parent / "programs"
ENGINES = ("mpi", "mccl")
WAYS = ("SIGKILL", "SIGSEGV", "exception")
KILLS_OF_A_JOB, STEPS_A_KILL = 10, 3
MAX_STEPS = KILLS_OF_A_JOB * STEPS_A_KILL + 2
STEP_S = 0.3
HANG_S = 1200


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--torch", help="Python of an environment with torch and transformers")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-restarts-") as name:
        home = Path(name)
        expected = {engine: train(home / f"never_{engine}", engine)["end"] for engine in ENGINES}
        jobs = []
        for number in track(range(wanted.kills // KILLS_OF_A_JOB), "restarts"):
            engine, chance = ENGINES[number % len(ENGINES)], random.Random(f"{wanted.seed} {number}")
            job = train(home / f"job_{number}", engine, [fault(nth, chance) for nth in range(KILLS_OF_A_JOB)])
            jobs.append({**job, "engine": engine, "same_end": job.pop("end") == expected[engine]})
        torch = train_under_torchrun(home / "torch", wanted.torch) if wanted.torch else None
    write_results("restarts", {"seed": wanted.seed, "jobs": jobs, "torchrun": torch}, summary(jobs, torch))
    sys.exit(not all(job["same_end"] and max(job["steps_lost"], default=0) <= 1 for job in jobs))


def fault(nth, chance):
    step = nth * STEPS_A_KILL + chance.randrange(1, STEPS_A_KILL + 1)
    return f"backward:{step}:{chance.randrange(2)}:{chance.choice(WAYS)}:{chance.uniform(0.001, STEP_S):.4f}"


def train(output, engine, faults=()):
    """A job, how it ended, and for each kill what it cost."""
    output.mkdir()
    env = {"FAULTS": " ".join(faults), "FAULT_FOLDER": str(output), "MINDNLP_DP_SNAPSHOT_EVERY": "1"}
    finished = run_ranks(
        PROGRAMS / "killed_often.py", output, MAX_STEPS,
        ranks=2, backend=engine, log_dir=output / "logs", timeout=HANG_S, env=env, options=("--max-restarts", 1),
    )  # fmt: skip
    begun = [line.split() for line in (output / "starts.rank0").read_text().splitlines()]
    kills = [
        (float((output / f"struck_{nth}").read_text()), int(each.split(":")[1])) for nth, each in enumerate(faults)
    ]
    ends = [output / f"end.rank{rank}.json" for rank in (0, 1)]
    return {
        "exit_code": finished.returncode,
        "end": [json.loads(end.read_text()) for end in ends] if finished.returncode == 0 else finished.stderr,
        **costs(kills, [(float(when), int(step)) for when, step in begun[1:]]),
    }


def costs(kills, restarts):
    """Seconds from each kill to the next first step, and how many steps that were done are done again."""
    pairs = list(zip(kills, restarts))
    return {
        "seconds": [round(began - killed, 3) for (killed, _), (began, _) in pairs],
        "steps_lost": [done - gone_on for (_, done), (_, gone_on) in pairs],
    }


def train_under_torchrun(output, python):
    """The same for the peer."""
    output.mkdir()
    kill_at = [nth * STEPS_A_KILL + 2 for nth in range(KILLS_OF_A_JOB)]
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--max-restarts", 100]
    command += [PROGRAMS / "torch_elastic.py", output, MAX_STEPS, *kill_at]
    subprocess.run([str(word) for word in command], check=True, timeout=HANG_S, capture_output=True)
    noted = {
        name: [(float(when), int(step)) for when, step in map(str.split, (output / name).read_text().splitlines())]
        for name in ("kills", "starts")
    }
    return costs(noted["kills"], noted["starts"][1:])


def summary(jobs, torch):
    num_same = sum(job["same_end"] for job in jobs)
    lost = [steps for job in jobs for steps in job["steps_lost"]]
    lines = [
        f"{len(lost)} kills in {len(jobs)} jobs with a snapshot after each step ({STEP_S} s): {num_same} jobs ended "
        "with the parameters and evaluations of one that was left alone, to the last bit. Steps done again for a kill: "
        f"at most {max(lost)}, in all {sum(lost)}.\n",
        "| | kills | seconds until the next step, median | longest |",
        "| --- | --- | --- | --- |",
    ]
    rows = {f"mindnlp-dp run, {engine}": [s for job in jobs if job["engine"] == engine for s in job["seconds"]]
            for engine in ENGINES}  # fmt: skip
    if torch:
        rows["torchrun, Gloo, saving each step to disk"] = torch["seconds"]
    lines += [
        f"| {name} | {len(seconds)} | {statistics.median(seconds):.1f} | {max(seconds):.1f} |"
        for name, seconds in rows.items()
        if seconds
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
