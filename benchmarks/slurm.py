"""Start jobs by a real Slurm, and see that they train and end as those of ``mindnlp-dp run``: ``make slurm``.

    python benchmarks/slurm.py PYTHON_WITH_MINDNLP05

Installs Slurm from Debian's packages if it is not there; needs root. Two nodes, which share this machine. Results are
written to ``benchmarks/results/slurm_<cpu>_<date>.json`` and ``.md``.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from itertools import chain
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import slurm_cluster
from benchmarks.record import write_results

REPOSITORY = Path(__file__).parents[1]
PROGRAM = REPOSITORY / "benchmarks" / "programs" / "slurm_job.py"
PROGRAM_OF_MINDNLP05 = REPOSITORY / "tests" / "mindnlp05" / "programs" / "under_others.py"
EXAMPLES = REPOSITORY / "examples" / "clusters"
LIMIT_S = 300
SOON_S = 15
RUN = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run"]


class Cluster:
    """Jobs of a Slurm that runs on this machine."""

    def __init__(self, folder: Path, environ: dict[str, str]):
        self.folder = folder
        self.environ = {**os.environ, **environ, "PYTHONPATH": str(REPOSITORY)}
        self.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{self.environ['PATH']}"

    def run(self, command, output, *arguments):
        """Runs the training by a command: its exit status, what it said, and what each rank ended with."""
        words = [*map(str, command), str(PROGRAM), str(self.folder / output), *arguments]
        ended = subprocess.run(
            words, env=self.environ, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_S
        )
        return ended.returncode, ended.stdout + ended.stderr, self.digests(output)

    def train_by_mindnlp05(self, command, output):
        """Trains by Hugging Face's Trainer: the exit status, and for each process its rank and what it ended with."""
        (self.folder / output).mkdir()
        words = [*map(str, command), str(PROGRAM_OF_MINDNLP05), str(self.folder / output)]
        ended = subprocess.run(words, env=self.environ, cwd=self.folder, timeout=LIMIT_S)
        return ended.returncode, sorted(path.read_text() for path in (self.folder / output).glob("process*.txt"))

    def python(self, command, output, *arguments):
        """The same, with a Python that runs the script."""
        return self.run([*command, sys.executable], output, *arguments)

    def submit(self, script, output, *arguments, wait=True, options=()):
        """The id of a job of ``sbatch``."""
        words = [
            "sbatch",
            "--parsable",
            *(["--wait"] if wait else []),
            *options,
            script,
            PROGRAM,
            self.folder / output,
            *arguments,
        ]
        ended = subprocess.run(
            [*map(str, words)], env=self.environ, cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_S
        )
        return ended.stdout.split()[0]

    def state(self, job):
        """A job's state and exit code, as ``scontrol`` shows them."""
        shown = slurm_cluster.run(["scontrol", "show", "job", job], self.environ)
        return re.search(r"JobState=(\S+)", shown)[1], re.search(r"ExitCode=(\S+)", shown)[1]

    def ended_state(self, job):
        """The same, once it has ended."""
        deadline = time.monotonic() + LIMIT_S
        while (found := self.state(job))[0] in ("RUNNING", "PENDING", "COMPLETING") and time.monotonic() < deadline:
            time.sleep(0.5)
        return found

    def said(self, job):
        """The job's output."""
        return (self.folder / f"slurm-{job}.log").read_text()

    def digests(self, output):
        """What each rank ended with, in order."""
        return [path.read_text() for path in sorted((self.folder / output).glob("digest_*"))]

    def wait_for(self, output, name):
        """Until a rank has left a file."""
        deadline = time.monotonic() + LIMIT_S
        while not (self.folder / output / name).exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{output}/{name} never came")
            time.sleep(0.1)

    def processes(self, name=str(PROGRAM)):
        """Living processes that have a word in their command."""
        found = psutil.process_iter(["cmdline", "status"])
        return [p for p in found if name in (p.info["cmdline"] or []) and p.info["status"] != psutil.STATUS_ZOMBIE]

    def all_gone(self):
        """Whether all ranks and launchers are gone within some seconds."""
        deadline = time.monotonic() + 20
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.2)
        return not self.processes()


def main():
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-slurm-") as name:
        folder = Path(name)
        with slurm_cluster.slurm(folder / "slurm") as environ:
            checks = {}
            cluster = Cluster(folder, environ)
            for what, holds in chain(check(cluster), check_mindnlp05(cluster, sys.argv[1])):
                print("ok:" if holds else "NOT:", what, flush=True)
                checks[what] = holds
    lines = [f"- {'yes' if holds else 'NO'}: {what}" for what, holds in checks.items()]
    version = subprocess.run(["slurmctld", "-V"], capture_output=True, text=True).stdout.strip()
    write_results("slurm", {"slurm": version, "checks": checks}, f"{version}, two nodes.\n\n" + "\n".join(lines))
    sys.exit(not all(checks.values()))


def check(cluster):
    """What must hold, one after the other."""
    _, _, two = cluster.run([*RUN, "--nproc", "2", "--backend", "mccl", "--log-dir", "two"], "two_output")
    _, _, four = cluster.run([*RUN, "--nproc", "4", "--backend", "mccl", "--log-dir", "four"], "four_output")
    holds = (len(two), len(four), len({*two, *four})) == (2, 4, 2)
    yield "mindnlp-dp run trains the same on all ranks", holds

    status, _, digests = cluster.python(["srun", "-N1", "-n2"], "srun_2")
    yield "srun -N1 -n2: as mindnlp-dp run --nproc 2, to the last bit", (status, digests) == (0, two)
    status, _, digests = cluster.python(["srun", "-N2", "-n4"], "srun_4")
    yield "srun -N2 -n4: as mindnlp-dp run --nproc 4, to the last bit", (status, digests) == (0, four)
    job = cluster.submit(EXAMPLES / "slurm.sh", "batch")
    holds = (cluster.digests("batch"), cluster.state(job)) == (four, ("COMPLETED", "0:0"))
    yield "sbatch examples/clusters/slurm.sh: the same", holds
    own = [*RUN, "--nproc", "2", "--backend", "mccl", "--log-dir"]
    status, said, digests = cluster.run(["salloc", "-N2", "-n4", *own, "refused_logs"], "refused")
    holds = (status, digests) == (2, []) and "srun --nodes=2 --ntasks-per-node=2 --kill-on-bad-exit=1 python" in said
    yield "mindnlp-dp run in an allocation of two nodes names the line of srun", holds
    status, _, digests = cluster.run(["salloc", "-N2", "-n4", "srun", "-N1", "-n1", *own, "one_logs"], "salloc")
    yield "srun -N1 -n1 mindnlp-dp run there uses one", (status, digests) == (0, two)

    for way, ended in {"exit": (7, "Exited with exit code 7"), "killed": (137, "Killed")}.items():
        status, said, _ = cluster.python(["srun", "-N2", "-n2"], way, "1", way)
        took = time.time() - (cluster.folder / way / "at_step_2_on_1").stat().st_mtime
        holds = status == ended[0] and f"task 1: {ended[1]}" in said and took < SOON_S and cluster.all_gone()
        yield f"a rank of srun fails ({way}): its status is told, the other ends soon, nobody is left", holds
    job = cluster.submit(EXAMPLES / "slurm.sh", "exception", "3", "exception")
    named = "3: ValueError: no such label" in cluster.said(job)
    yield (
        "an exception on the second node: shown with its rank, the job fails",
        named and cluster.state(job)[0] == "FAILED",
    )
    job = cluster.submit(EXAMPLES / "slurm_requeue.sh", "requeued", "3", "wait", wait=False)
    cluster.wait_for("requeued", "at_step_2_on_3")
    slurm_cluster.run(["scancel", "--signal=USR1", job], cluster.environ)
    (cluster.folder / "requeued" / "go_on").touch()
    holds = cluster.ended_state(job) == ("COMPLETED", "0:0") and cluster.digests("requeued") == four
    holds = holds and "stopped by SIGUSR1 after step 3, which " in cluster.said(job)
    yield "scancel --signal=USR1: a checkpoint, the job is queued again and ends as if never stopped", holds
    options = ("--no-requeue",)  # it would be queued again, and its state with it
    job = cluster.submit(EXAMPLES / "slurm.sh", "down", "3", "hang", wait=False, options=options)
    cluster.wait_for("down", "at_step_2_on_3")
    slurm_cluster.run(["scontrol", "update", "nodename=n2", "state=down", "reason=test"], cluster.environ)
    holds = cluster.ended_state(job)[0] == "NODE_FAIL" and cluster.all_gone()
    yield "a node is set down: the job ends with NODE_FAIL, nobody is left", holds


def check_mindnlp05(cluster, python):
    """Hugging Face's Trainer over MindNLP 0.5, by srun as by the launcher."""
    for ranks, nodes in ((2, 1), (4, 2)):
        run = [python, *RUN[1:], "--nproc", ranks, "--backend", "mccl", "--log-dir", f"hf_{ranks}_logs"]
        status, expected = cluster.train_by_mindnlp05(run, f"hf_{ranks}")
        holds = status == 0 and len(expected) == ranks and len({words.split()[1] for words in expected}) == 1
        yield f"MindNLP 0.5, mindnlp-dp run --nproc {ranks}: all ranks end with the same", holds
        srun = ["srun", f"-N{nodes}", f"-n{ranks}", "--kill-on-bad-exit=1", python]
        holds = cluster.train_by_mindnlp05(srun, f"hf_srun_{ranks}") == (0, expected)
        yield f"MindNLP 0.5, srun -N{nodes} -n{ranks}: the same, to the last bit", holds


if __name__ == "__main__":
    main()
