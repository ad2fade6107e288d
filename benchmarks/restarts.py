"""Kill ranks at random, and see what is lost: ``make restarts``.

    python benchmarks/restarts.py background [--kills 100] [--seed 0]
    python benchmarks/restarts.py checkpoints [--kills 100] [--seed 0]
    python benchmarks/restarts.py elastic [--kills 20] [--seed 0]
    python benchmarks/restarts.py torchrun --torch PYTHON [--kills 5]

Jobs of two ranks train (``programs/killed_often.py``) and lose a rank ten times each, at a random moment, by SIGKILL,
SIGSEGV or an exception: with a checkpoint after each step, written while training goes on, or with optimizer states
shared out, while they save. They must end as a job of plain data parallelism that was left alone, to
the last bit, and no kill may cost more than one step that was done.

With ``elastic``, one training is started again on another number of ranks after each kill, and must end as one process
that was left alone.

The peer: scripts that save each step under torchrun, each killed once; where Gloo does not connect the ranks, torchrun
starts them again, and where they wait for each other for two minutes, they are ended.

Writes ``benchmarks/results/restarts-<kept>_<cpu>_<date>.json`` and ``.md``. Times are part of it: leave the machine
idle.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
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
STEP_S, SAVE_S = 0.3, 0.02
MICRO_BATCHES, RANKS = 4, (1, 2, 4)  # of a step, and what divides them
HANG_S, PEER_HANG_S = 1200, 120


@dataclass
class Keeping:
    """What a job keeps of its steps, and when it is struck.

    Attributes:
        description: In words.
        moment: When faults strike, as ``tests/programs/faults.py`` names it.
        lasts: Seconds that the moment lasts.
        variables: Settings, which jobs take in turns.
    """

    description: str
    moment: str
    lasts: float
    variables: list[dict[str, str]]


KEEPING = {
    "background": Keeping(
        f"with a checkpoint after each step ({STEP_S} s), written while training goes on",
        "backward", STEP_S, [{"MINDNLP_DP_ASYNC_SAVE": "1"}],
    ),
    "checkpoints": Keeping(
        "while saving, with a checkpoint after each step, with zero_stage 1, 2 and 3 in turns",
        "save", SAVE_S, [{"MINDNLP_DP_ZERO_STAGE": str(stage)} for stage in (1, 2, 3)],
    ),
}  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kept", choices=[*KEEPING, "elastic", "torchrun"])
    parser.add_argument("--kills", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--torch", help="Python of an environment with torch and transformers")
    wanted = parser.parse_args()
    if wanted.kept == "torchrun":
        kill_the_peer(wanted.torch, wanted.kills or 5)
    elif wanted.kept == "elastic":
        kill_on_any_number(wanted.kills or 20, wanted.seed)
    else:
        kill_ours(wanted.kept, wanted.kills or 100, wanted.seed)


def kill_ours(kept, num_kills, seed):
    keeping = KEEPING[kept]
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-restarts-") as name:
        home = Path(name)
        expected = {engine: train(home / f"never_{engine}", engine, keeping, {})["end"] for engine in ENGINES}
        jobs = []
        for number in track(range(num_kills // KILLS_OF_A_JOB), "restarts"):
            engine, chance = ENGINES[number % len(ENGINES)], random.Random(f"{seed} {number}")
            faults = [fault(nth, chance, keeping) for nth in range(KILLS_OF_A_JOB)]
            variables = keeping.variables[number // len(ENGINES) % len(keeping.variables)]
            job = train(home / f"job_{number}", engine, keeping, variables, faults)
            jobs.append({**job, "engine": engine, "variables": variables, "expected": expected[engine]})
    write_results(f"restarts-{kept}", {"seed": seed, "jobs": jobs}, summary(keeping, jobs))
    lost = steps_lost(jobs)
    sys.exit(not (num_same(jobs, "parameters") == num_same(jobs, "evaluations") == len(jobs) and max(lost) <= 1))


def steps_lost(jobs):
    """For each kill, how many steps that were done were done again."""
    return [steps for job in jobs for steps in job["steps_lost"]]


def num_same(jobs, what):
    """How many jobs came to their end with the same of this, on all ranks, as the one that was left alone."""
    ended = [job for job in jobs if job["exit_code"] == 0]
    return sum([rank[what] for rank in job["end"]] == [rank[what] for rank in job["expected"]] for job in ended)


def fault(nth, chance, keeping, num_ranks=2):
    step = nth * STEPS_A_KILL + chance.randrange(1, STEPS_A_KILL + 1)
    rank, way, delay = chance.randrange(num_ranks), chance.choice(WAYS), chance.uniform(0.001, keeping.lasts)
    return f"{keeping.moment}:{step}:{rank}:{way}:{delay:.4f}"


def train(output, engine, keeping, variables, faults=()):
    """A job, how it ended, and for each kill what it cost."""
    output.mkdir()
    env = {"FAULTS": " ".join(faults), "FAULT_FOLDER": str(output), **variables}
    finished = run_ranks(
        PROGRAMS / "killed_often.py", output, MAX_STEPS,
        ranks=2, backend=engine, log_dir=output / "logs", timeout=HANG_S, env=env, options=("--max-restarts", 1),
    )  # fmt: skip
    begun = [line.split() for line in (output / "starts.rank0").read_text().splitlines()]
    struck = [(output / f"struck_{nth}", each) for nth, each in enumerate(faults)]
    kills = [(float(when.read_text()), int(each.split(":")[1])) for when, each in struck if when.exists()]
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


def kill_on_any_number(num_kills, seed):
    """One training on ever other ranks, each number struck once."""
    chance, ranks, starts = random.Random(seed), MICRO_BATCHES, []
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-restarts-") as name:
        home = Path(name)
        expected = start_once(home / "never", 1, "mpi", num_kills)
        for nth in track(range(num_kills + 1), "kills"):
            ranks = chance.choice([number for number in RANKS if number != ranks])
            engine = ENGINES[nth % len(ENGINES)]
            faults = [fault(nth, chance, KEEPING["checkpoints"], ranks)] if nth < num_kills else []
            end = start_once(home / "killed", ranks, engine, num_kills, faults)
            starts.append({"ranks": ranks, "engine": engine, "faults": faults, "ended": end is not None})
    same = end == expected
    killed = sum(not each["ended"] for each in starts)
    numbers = ", ".join(str(each["ranks"]) for each in starts)
    write_results(
        "restarts-elastic",
        {"seed": seed, "starts": starts, "expected": expected, "end": end},
        f"One training of {MICRO_BATCHES} micro-batches a step, killed {killed} times while it saved or trained and "
        f"started again on another number of ranks ({numbers}), over MPI and MCCL by turns. It ended with the "
        f"parameters and evaluations of one process that was left alone, to the last bit: {'yes' if same else 'NO'}.",
    )
    sys.exit(not (same and killed == num_kills))


def start_once(output, ranks, engine, num_kills, faults=()):
    """One start of a training that goes on from its newest checkpoint: what it ended with, None if it was killed."""
    output.mkdir(exist_ok=True)
    env = {
        "FAULTS": " ".join(faults), "FAULT_FOLDER": str(output), "MINDNLP_DP_RESUME": "1",
        "MINDNLP_DP_ELASTIC_DETERMINISM": str(MICRO_BATCHES),
    }  # fmt: skip
    finished = run_ranks(
        PROGRAMS / "killed_often.py", output, num_kills * STEPS_A_KILL + 2,
        ranks=ranks, backend=engine, log_dir=output / "logs", timeout=HANG_S, env=env,
    )  # fmt: skip
    if finished.returncode == 0:
        return json.loads((output / "end.rank0.json").read_text())
    if not (output / "struck_0").exists():
        sys.exit(f"{finished.stdout}\n{finished.stderr}")
    (output / "struck_0").unlink()
    return None


def kill_the_peer(python, num_kills):
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-restarts-") as name:
        jobs = [train_under_torchrun(Path(name, str(number)), python) for number in range(num_kills)]
    seconds = [s for job in jobs for s in job["seconds"]]
    lines = [
        "A script under torchrun with Gloo, on 2 ranks, that saves each step to disk and loses a rank once. torchrun "
        f"started the ranks again {sum(job['restarts'] for job in jobs)} times for {len(jobs)} kills; "
        f"{sum(not job['seconds'] for job in jobs)} jobs stood still in a restart for {PEER_HANG_S} s.\n",
        HEADER,
        row("torchrun, Gloo", seconds),
    ]
    write_results("restarts-torchrun", {"jobs": jobs}, "\n".join(lines))


def train_under_torchrun(output, python):
    """A job of the peer, and what its kill cost."""
    output.mkdir()
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--max-restarts", 20]
    command += [PROGRAMS / "torch_elastic.py", output, 2 * STEPS_A_KILL, STEPS_A_KILL]
    with (output / "printed").open("w") as printed:
        job = subprocess.Popen([str(word) for word in command], stdout=printed, stderr=printed)
        try:
            if job.wait(PEER_HANG_S):
                sys.exit((output / "printed").read_text())
        except subprocess.TimeoutExpired:
            job.terminate()  # torchrun ends its ranks
            job.wait()
    noted = {
        name: [(float(when), int(step)) for when, step in map(str.split, (output / name).read_text().splitlines())]
        for name in ("kills", "starts")
    }
    num_tries = len((output / "tries").read_text().splitlines())
    return {"restarts": num_tries - 1, **costs(noted["kills"], noted["starts"][1:])}


HEADER = "| | kills | seconds until the next step, median | longest |\n| --- | --- | --- | --- |"


def row(name, seconds):
    return f"| {name} | {len(seconds)} | {statistics.median(seconds):.1f} | {max(seconds):.1f} |"


def summary(keeping, jobs):
    lost = steps_lost(jobs)
    lines = [
        f"{len(lost)} kills in {len(jobs)} jobs {keeping.description}: "
        f"{num_same(jobs, 'parameters')} jobs ended with the parameters of one that was left alone, to the last bit, "
        f"{num_same(jobs, 'evaluations')} with all of its evaluations. "
        f"Steps done again for a kill: at most {max(lost)}, in all {sum(lost)}.\n",
        HEADER,
    ]
    for engine in ENGINES:
        if seconds := [s for job in jobs if job["engine"] == engine for s in job["seconds"]]:
            lines.append(row(f"mindnlp-dp run, {engine}", seconds))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
