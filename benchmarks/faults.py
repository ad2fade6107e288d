"""Kill ranks and disturb jobs at random, and see what becomes of them: ``make faults``.

    python benchmarks/faults.py [--kills 100] [--disturbances 100] [--interruptions 20] [--seed 0]
        [--limit 3] [--at-once 1] [--minutes M]

Each of the ``kills`` is a job of two ranks that trains, evaluates and saves, and in which one rank dies at a random
moment in a random way. It goes on from what the one before left, so that checkpoints that survive are loaded. Then jobs
are disturbed from outside (``disturbances.py``): launchers killed, readers stalled, ranks stopped, shared memory full,
garbage sent. Then jobs are interrupted four times each and started again by ``--max-restarts``; they must end as one
never interrupted.

Each fault depends on its number and the seed alone. ``--at-once 2`` runs two jobs at a time, ``--minutes`` begins no
fault after so many. Results are written to ``benchmarks/results/faults_<cpu>_<date>.json`` and ``.md``. Times are part
of what it checks: on a machine that is not idle, give a ``--limit`` of more seconds.
"""

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
from safetensors.numpy import load_file

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.disturbances import disturb, in_own_mounts
from benchmarks.record import write_results
from mindnlp_dp_plugin.checkpoint import store
from tests.harness import REPOSITORY, run_ranks

ENGINES = ("mpi", "mccl")
# Seconds from a moment's beginning in which the rank dies; some moments last longer with MCCL.
MOMENTS = {
    "import": {"mpi": 1.5, "mccl": 1.5},
    "rendezvous": {"mpi": 0.1, "mccl": 3},
    "broadcast": {"mpi": 0.005, "mccl": 0.02},
    "backward": {"mpi": 0.03, "mccl": 0.05},
    "all_reduce": {"mpi": 0.0005, "mccl": 0.002},
    "save": {"mpi": 0.02, "mccl": 0.02},
    "evaluation": {"mpi": 0.03, "mccl": 0.03},
    "exit": {"mpi": 0.02, "mccl": 0.02},
}
EXIT_CODES = {"SIGKILL": 137, "SIGSEGV": 139, "exception": 1}
SIGNALS = ("SIGKILL", "SIGSEGV")
TRACES_S = 5  # for what other jobs have just made, and are about to use
STEPS_PER_JOB = 4
INTERRUPTIONS_PER_JOB = 4
HANG_S = 180
IS_APART = "FAULTS_APART"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--disturbances", type=int, default=100)
    parser.add_argument("--interruptions", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, default=3, help="seconds in which a job must end")
    parser.add_argument("--at-once", type=int, default=1, help="jobs at a time")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no fault after so many")
    wanted = parser.parse_args()
    if IS_APART not in os.environ:
        stand_apart()
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-faults-") as name:
        home, began = Path(name), time.monotonic()
        todo = Todo(wanted.seed, wanted.at_once, began + wanted.minutes * 60)
        # Each kill goes on from what the one before on the same engine left.
        lanes = [range(first, wanted.kills, len(ENGINES)) for first in range(len(ENGINES))]
        kills = todo.do("kill", lanes, lambda number, chance: kill(home, number, chance, wanted.limit))
        lanes = [[number] for number in range(wanted.disturbances)]
        disturbed = todo.do("disturbance", lanes, lambda number, chance: disturb(home, number, chance))
        interrupted = interrupt(home, wanted.interruptions // INTERRUPTIONS_PER_JOB, random.Random(wanted.seed))
        minutes = (time.monotonic() - began) / 60
    num_clean = sum(not fault["problems"] for fault in kills + disturbed)
    write_results(
        "faults",
        {"seed": wanted.seed, "kills": kills, "disturbed": disturbed, "interrupted": interrupted},
        "\n".join(
            [
                f"{len(kills + disturbed)} of {wanted.kills + wanted.disturbances} faults in {minutes:.0f} minutes, "
                f"{wanted.at_once} at a time: {num_clean} clean ends.\n",
                *([summary(kills, interrupted)] if kills or interrupted else []),
                *summary_of(disturbed),
            ]
        ),
    )
    sys.exit(num_clean < len(kills + disturbed) or not all(job["same_end"] for job in interrupted))


def stand_apart():
    """Start this program again with a /dev/shm of its own: what other jobs here leave is not taken for its own."""
    os.environ[IS_APART] = "1"
    command = in_own_mounts('mount -t tmpfs shm /dev/shm; exec "$@"')
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


class Todo:
    """Does what there is to do, some of it at a time.

    Args:
        seed: What random choices depend on, beside a fault's number.
        at_once: How much is done at a time.
        deadline: When nothing more is begun.
    """

    def __init__(self, seed, at_once, deadline):
        self._seed, self._at_once, self._deadline = seed, at_once, deadline

    def do(self, kind, lanes, action):
        """The results of an action for each number, in order; the numbers of a lane follow each other."""
        found = {}

        def drive(lane):
            for number in lane:
                if time.monotonic() > self._deadline:
                    return
                began = time.monotonic()
                found[number] = action(number, random.Random(f"{self._seed} {kind} {number}"))
                end = "; ".join(found[number]["problems"]) or "clean"
                what = " ".join(str(found[number].get(key, "")) for key in ("engine", "fault", "disturbance"))
                print(f"{kind} {number} ({time.monotonic() - began:.0f} s): {what}: {end}", flush=True)

        with ThreadPoolExecutor(self._at_once) as pool:
            list(pool.map(drive, lanes))
        return [found[number] for number in sorted(found)]


def summary_of(disturbed):
    """A line for each kind of disturbance, and one for each problem."""
    for name in dict.fromkeys(fault["disturbance"] for fault in disturbed):
        of_kind = [fault for fault in disturbed if fault["disturbance"] == name]
        clean = sum(not fault["problems"] for fault in of_kind)
        yield f"- {name.replace('_', ' ')}: {clean} of {len(of_kind)} clean ends"
    for fault in disturbed:
        if fault["problems"]:
            yield f"- {fault['engine']} {fault['disturbance']}: {'; '.join(fault['problems'])}"


def kill(home, number, chance, limit):
    """One job, one death; what happened."""
    engine = ENGINES[number % len(ENGINES)]
    moment = list(MOMENTS)[number // len(ENGINES) % len(MOMENTS)]
    rank = chance.randrange(2)
    if moment == "save":
        rank = 0  # the others wait
    # At the exit Python ignores an exception that comes when the script has ended.
    way = chance.choice(SIGNALS if moment == "exit" else list(EXIT_CODES))
    output = home / engine
    output.mkdir(exist_ok=True)
    for attempt in range(5):  # a rank may be through before it is due
        (output / "struck_0").unlink(missing_ok=True)
        newest = newest_step(output / "trainer")
        wanted = newest + STEPS_PER_JOB
        step = newest + chance.randrange(1, STEPS_PER_JOB)
        if moment in ("import", "rendezvous", "broadcast", "exit"):
            step = 0
        delay = chance.uniform(0, MOMENTS[moment][engine]) / (attempt + 1)
        fault = f"{moment}:{step}:{rank}:{way}:{delay:.5f}"
        before = traces()
        finished, seconds = run_job(output, engine, fault, wanted)
        if (output / "struck_0").exists():
            break
    problems = []
    # Who dies at the exit when all ranks have come to their end leaves a job that is done: nothing is missing.
    is_done = moment == "exit" and finished.returncode == 0 and newest_step(output / "trainer") == wanted
    if finished.returncode != EXIT_CODES[way] and not is_done:
        problems.append(f"exit code {finished.returncode}")
    if seconds is None or seconds > limit:
        problems.append(f"took {seconds} s to end")
    if not finished.stderr.startswith(f"mindnlp-dp: rank {rank} on ") and not is_done:
        problems.append(f"says {finished.stderr.splitlines()[:1]}")
    problems += [f"left {trace}" for trace in left_since(before)]
    problems += [f"left process {pid}" for pid in processes_of(output)]
    problems += unusable(output / "trainer")
    if problems:
        shutil.copytree(output / "logs", Path("mindnlp_dp_logs", f"fault_{number}"), dirs_exist_ok=True)
    return {"engine": engine, "fault": fault, "seconds": seconds, "was_done": is_done, "problems": problems}


def run_job(output, engine, faults, max_steps, *, arguments=("resume",), options=()):
    """The finished launcher, and how long after the (last) fault it ended."""
    env = {
        "FAULTS": faults,
        "FAULT_FOLDER": str(output),
        "PYTHONPATH": f"{Path(__file__).parent / 'programs/early_faults'}{os.pathsep}{REPOSITORY}",
    }
    finished = run_ranks(
        "struck.py", output, max_steps, *arguments,
        ranks=2, backend=engine, log_dir=output / "logs", timeout=HANG_S, env=env, options=options,
    )  # fmt: skip
    ended = time.time()
    struck = output / "struck_0"
    return finished, round(ended - float(struck.read_text()), 3) if struck.exists() else None


def newest_step(folder):
    return max((int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*")), default=0)


def unusable(folder):
    """What is wrong with the checkpoints of a folder."""
    problems = [f"left {path.name}" for path in folder.glob(".mindnlp_dp_plugin*")]
    for checkpoint in folder.glob("checkpoint-*"):
        try:
            problems += filter(None, [store.problem_of(checkpoint)])
            load_file(checkpoint / "model.safetensors")
        except Exception as error:
            problems.append(f"{checkpoint.name} cannot be loaded: {error}")
    return problems


def traces():
    """What jobs may leave in shared memory and in the folder for temporary files, and that nobody uses."""
    patterns = ("ompi.*", "prte.*", "pmix*", "mindnlp-dp-job-*")
    sessions = (Path(tempfile.gettempdir()).glob(pattern) for pattern in patterns)
    found = {str(path) for paths in (Path("/dev/shm").iterdir(), *sessions) for path in paths}
    return {path for path in found if not is_used(path)}


def left_since(before):
    """The traces that are there after some seconds, and were not before."""
    deadline = time.monotonic() + TRACES_S
    while (left := traces() - before) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def is_used(path):
    """Whether a process has it in memory or locked it, or made it and lives: other jobs here are none of ours."""
    maker = path.rpartition(".")[2]
    if maker.isdigit() and psutil.pid_exists(int(maker)):
        return True
    with suppress(OSError):
        if f":{os.stat(path).st_ino} " in Path("/proc/locks").read_text():
            return True
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            if path in maps.read_text():
                return True
    return False


def processes_of(home):
    return [p.pid for p in psutil.process_iter(["cmdline"]) if str(home) in " ".join(p.info["cmdline"] or [])]


def interrupt(home, num_jobs, chance):
    """Jobs that are started again by the launcher, beside one that is left alone."""
    if not num_jobs:
        return []
    max_steps = 12
    ends = {}
    for engine in ENGINES[:num_jobs]:
        never = home / f"never_{engine}"
        never.mkdir()
        finished, _ = run_job(never, engine, "", max_steps, arguments=())
        assert finished.returncode == 0, finished.stderr
        ends[engine] = how_it_ended(never)
    jobs = []
    for number in range(num_jobs):
        engine = ENGINES[number % len(ENGINES)]
        output = home / f"interrupted_{number}"
        output.mkdir()
        faults = []
        for step in sorted(chance.sample(range(max_steps), INTERRUPTIONS_PER_JOB)):
            moment = chance.choice(["backward", "all_reduce", "save", "evaluation"])
            rank = 0 if moment == "save" else chance.randrange(2)
            delay = chance.uniform(0, MOMENTS[moment][engine] / 2)
            # A save or an evaluation comes after its step, backward before the next.
            step += moment in ("save", "evaluation")
            faults.append(f"{moment}:{step}:{rank}:{chance.choice(list(EXIT_CODES))}:{delay:.5f}")
        options = ("--max-restarts", INTERRUPTIONS_PER_JOB)
        finished, _ = run_job(output, engine, " ".join(faults), max_steps, arguments=(), options=options)
        struck = len(list(output.glob("struck_*")))
        same = finished.returncode == 0 and how_it_ended(output) == ends[engine]
        jobs.append({"engine": engine, "faults": faults, "num_struck": struck, "same_end": same})
    return jobs


def how_it_ended(output):
    return [json.loads((output / f"end.rank{rank}.json").read_text()) for rank in range(2)]


def summary(kills, interrupted):
    struck = [kill for kill in kills if kill["seconds"] is not None]
    num_clean = sum(not kill["problems"] for kill in kills)
    num_done = sum(kill["was_done"] for kill in kills)
    lines = [
        f"{len(struck)} of {len(kills)} kills struck; {num_clean} clean ends. {num_done} came at the exit, when all "
        "ranks had come to their end: those jobs ended with status 0.\n"
    ]
    lines += ["| moment | engine | kills | clean | median s | longest s |", "| --- | --- | --- | --- | --- | --- |"]
    for (moment, engine), number in Counter((kill["fault"].split(":")[0], kill["engine"]) for kill in struck).items():
        of_kind = [kill for kill in struck if (kill["fault"].split(":")[0], kill["engine"]) == (moment, engine)]
        seconds = sorted(kill["seconds"] for kill in of_kind)
        clean = sum(not kill["problems"] for kill in of_kind)
        lines.append(f"| {moment} | {engine} | {number} | {clean} | {seconds[number // 2]:.2f} | {seconds[-1]:.2f} |")
    lines += [
        f"\n- {kill['engine']} {kill['fault']}: {'; '.join(kill['problems'])}" for kill in kills if kill["problems"]
    ]
    if interrupted:
        struck = sum(job["num_struck"] for job in interrupted)
        same = sum(job["same_end"] for job in interrupted)
        lines.append(
            f"\n{struck} interruptions of {len(interrupted)} jobs, restarted by `--max-restarts`: {same} ended with "
            "the parameters, log and best checkpoint of one never interrupted, to the last bit."
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
