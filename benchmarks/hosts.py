"""Train on several hosts, which are network namespaces of this machine, and let them fail: ``make hosts``.

    python benchmarks/hosts.py PYTHON_WITH_TORCH [equal] [disks] [ends] [restarts]

msrun, mpirun and torchrun start the ranks, as on a cluster. Needs root and iproute2. Results are written to
``benchmarks/results/hosts_<cpu>_<date>.json`` and ``.md``.
"""

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import namespaces
from benchmarks.record import write_results
from tests.distributed.test_oracle import assert_equal_within_rounding
from tests.harness import PROGRAMS, REPOSITORY, kill_tree, run_ranks_successfully
from tests.programs.scenarios import SCENARIOS

ENGINES, SCENARIO, PORT = ("msrun", "mpirun", "torchrun"), "bert_adamw", 8118
HANG_S, LAUNCHER_S = 600, 60
NEVER_ENDS = 10**6  # steps
ROUNDING = 1e-6
# What a first line does in a script of one's own.
WITH_THE_PLUGIN = (
    "import runpy, sys, mindnlp_dp_plugin; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
)
KILLED, LINK_DOWN = "SIGKILL of rank 1", "the last host's link goes down"
ELASTIC = {"MINDNLP_DP_ELASTIC_DETERMINISM": "6"}
# Where somebody says who is lost.
NAMES = re.compile(
    r"rank \d+ (is gone|has failed)|process rank \d+|exitcode|daemon failed|timed out node|lost conn", re.I
)


def main():
    parts = {
        "equal": (train_as_one_process, [(engine, hosts) for engine in ENGINES for hosts in (2, 3)]),
        "disks": (stop_and_resume, [(engine,) for engine in ENGINES]),
        "ends": (end_badly, [(e, hosts, what) for hosts in (2, 3) for e in ENGINES for what in (KILLED, LINK_DOWN)]),
        "restarts": (start_again, [(2, {}), (3, {}), (2, ELASTIC)]),
    }
    results = {part: [] for part in parts}
    cases = [(part, case) for part, (_, cases) in parts.items() for case in cases if part in (sys.argv[2:] or parts)]
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-hosts-") as name:
        for number, (part, case) in track(list(enumerate(cases)), "hosts"):
            output = Path(name, str(number))
            output.mkdir()
            try:
                result = parts[part][0](output, *case)
            except (AssertionError, RuntimeError, subprocess.TimeoutExpired) as error:
                result = {"problems": [str(error)[-1000:]]}
            results[part].append({"case": case, **result})
            write_results("hosts", results, summary(results), shows=False)
    print(summary(results))
    sys.exit(any(result.get("problems") for part in results.values() for result in part))


class Job:
    """A program on every host, one rank on each, started the way a user starts it.

    Args:
        hosts: Where.
        output: Where what is said goes.
        engine: What starts the ranks.
        program: What, with its arguments.
        env: More variables.
        folders: The current directory on each host.
        options: More of torchrun's options.
    """

    def __init__(self, hosts, output, engine, *program, env=None, folders=None, options=()):
        words = ["python", "-c", WITH_THE_PLUGIN, PROGRAMS / program[0], *program[1:]]
        self.hosts = hosts
        self._texts = [output / f"said_on_host{number}" for number in range(len(hosts))]
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY), **(env or {})}
        self._processes = []
        for number, command in enumerate(getattr(self, f"_of_{engine}")(output, words, options)):
            self._processes.append(
                subprocess.Popen(
                    hosts[number].command(command), env=env, cwd=(folders or [output] * len(hosts))[number],
                    stdin=subprocess.DEVNULL, stdout=self._texts[number].open("w"), stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            )  # fmt: skip

    def seconds_until_the_end(self, since):
        """For each host how long after a time no rank was left on it, and for each launcher when it ended, or None."""
        gone, ended, deadline = {}, {}, time.time() + HANG_S
        while time.time() < deadline and (len(gone), len(ended)) != (len(self.hosts), len(self._processes)):
            for number, process in enumerate(self._processes):
                if process.poll() is not None:
                    ended.setdefault(number, round(time.time() - since, 1))
            for host in self.hosts:
                if host.name not in gone and not any(map(is_rank, host.members())):
                    gone[host.name] = round(time.time() - since, 1)
                    deadline = time.time() + LAUNCHER_S
            time.sleep(0.05)
        for process in self._processes:
            kill_tree(process.pid)
        return [gone.get(host.name) for host in self.hosts], [ended.get(n) for n in range(len(self._processes))]

    def said(self):
        """What was said on each host."""
        return [text.read_text(errors="replace") if text.exists() else "" for text in self._texts]

    def wait(self):
        """Until all launchers have ended."""
        for process in self._processes:
            process.wait(HANG_S)

    def wait_successfully(self):
        """Ends this program, with all that was said, unless all launchers end with 0."""
        self.wait()
        if any(process.returncode for process in self._processes):
            raise RuntimeError("\n".join(self.said()))

    def _of_msrun(self, output, words, options):
        places = [f"--worker_num={len(self.hosts)}", "--local_worker_num=1", f"--master_addr={self.hosts[0].address}"]
        places += [f"--master_port={PORT}", "--join=True"]
        for rank in range(len(self.hosts)):
            (output / f"msrun_{rank}").mkdir(exist_ok=True)
            yield ["msrun", *places, f"--node_rank={rank}", f"--log_dir={output / f'msrun_{rank}'}", *words]

    def _of_torchrun(self, output, words, options):
        run = [sys.argv[1], "-m", "torch.distributed.run", "--nproc-per-node=1", "--rdzv-backend=c10d"]
        run += options or [f"--nnodes={len(self.hosts)}"]
        for host in self.hosts:
            # These hosts know no names: a cluster's do, and need neither of the last two.
            meeting = [f"--rdzv-endpoint={self.hosts[0].address}:{PORT}", f"--local-addr={host.address}"]
            meeting += [f"--rdzv-conf=is_host={host is self.hosts[0]},last_call_timeout=5"]
            yield [*run, *meeting, "--no-python", *words]

    def _of_mpirun(self, output, words, options):
        agent = output / "agent"  # what ssh is to a real cluster
        cases = (f'{host.address}) exec {shlex.join(host.command(["sh", "-c"]))} "$*";;' for host in self.hosts)
        agent.write_text("#!/bin/sh\naddress=$1\nshift\ncase $address in\n" + "\n".join(cases) + "\nesac\n")
        agent.chmod(0o700)
        mpirun = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--prtemca", "plm_ssh_agent", agent]
        mpirun += ["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", f"{namespaces.SUBNET}.0/24"]
        mpirun += ["--mca", "mpi_yield_when_idle", "1", "-x", "PYTHONPATH"]  # the hosts share their cores
        yield [*mpirun, "-n", len(self.hosts), "-H", ",".join(f"{host.address}:1" for host in self.hosts), *words]


def is_rank(pid):
    """Whether a process is a rank, not what has started it nor MindSpore's scheduler."""
    try:
        process = psutil.Process(pid)
        return process.cmdline()[1:3] == ["-c", WITH_THE_PLUGIN] and process.environ().get("MS_ROLE") != "MS_SCHED"
    except psutil.Error:
        return False


def train_as_one_process(output, engine, num_hosts):
    """Ranks on as many hosts against one process with their batches together, as the oracle test compares them."""
    alone = output.parent / f"as_{num_hosts}_ranks"
    if not alone.exists():
        alone.mkdir()
        how = dict(ranks=1, backend="auto", log_dir=alone / "logs", timeout=HANG_S)
        run_ranks_successfully("train_scenarios.py", alone, num_hosts, SCENARIO, **how)
    with namespaces.network(num_hosts) as network:
        Job(network.hosts, output, engine, "train_scenarios.py", output, num_hosts, SCENARIO).wait_successfully()
    expected = np.load(alone / f"{SCENARIO}.rank0.npz")
    ranks = [np.load(output / f"{SCENARIO}.rank{rank}.npz") for rank in range(num_hosts)]
    same = all(np.array_equal(rank[what], ranks[0][what]) for rank in ranks for what in ("digests", "losses"))
    problems = [] if same else ["ranks differ"]
    try:
        assert_equal_within_rounding(ranks[0], expected, SCENARIOS[SCENARIO].tolerances)
    except AssertionError as error:
        problems.append(f"not as one process: {error}")
    difference = float(np.abs(ranks[0]["parameters"] - expected["parameters"]).max())
    return {"difference": difference, "problems": problems}


def stop_and_resume(output, engine):
    """Two hosts stop and resume: in a folder that both see, and in one of which each has its own."""
    disks = [output / "disk_of_host0", output / "disk_of_host1"]
    for disk in disks:
        disk.mkdir()
    with namespaces.network(2) as network:
        # mpirun starts all ranks in its own folder.
        own, shared = (disks[0] / "own",) * 2 if engine == "mpirun" else ("own", "../shared")
        Job(network.hosts, output, engine, "file_systems.py", own, shared, folders=disks).wait_successfully()
    ends = [json.loads(path.read_text()) for path in sorted(output.glob("disk_of_host*/own/ended.json"))]
    first = ends[0]
    is_right = {
        "all end alike": all(end == first for end in ends),
        "resumed from a shared folder": first["shared"] == first["whole"],
        "refused to write twice": str(first["shared_on_each_node"]).startswith("save_on_each_node=True, but several"),
    }
    if engine != "mpirun":
        is_right["resumed from what each has written"] = first["own_on_each_node"] == first["whole"]
        is_right["refused without"] = "rank 0 on host0 has checkpoint-2" in str(first["own"])
    return {"problems": [f"not {what}: {ends}" for what, holds in is_right.items() if not holds]}


def end_badly(output, engine, num_hosts, fault):
    """Rank 1 is killed, or the last host's link goes down: how soon ranks are gone, and what is said."""
    with namespaces.network(num_hosts) as network:
        env = {"FAULTS": "backward:4:1:SIGKILL:0.01" if fault == KILLED else "", "FAULT_FOLDER": str(output)}
        job = Job(network.hosts, output, engine, "struck.py", output, NEVER_ENDS, env=env)
        struck = output / ("struck_0" if fault == KILLED else "trainer/checkpoint-4")
        deadline = time.time() + HANG_S
        while not struck.exists():
            if time.time() > deadline:
                raise RuntimeError("\n".join(job.said()))
            time.sleep(0.02)
        since = float(struck.read_text()) if fault == KILLED else time.time()
        if fault == LINK_DOWN:
            network.hosts[-1].cut()
        seconds, launchers = job.seconds_until_the_end(since)
    said = [next((line.strip()[:200] for line in each.splitlines() if NAMES.search(line)), "") for each in job.said()]
    problems = [f"{host.name} is left" for host, gone in zip(network.hosts, seconds) if gone is None]
    return {"seconds": seconds, "launchers": launchers, "said": said, "problems": problems}


def start_again(output, least, env):
    """torchrun on three hosts: rank 1 is killed, and all start again; or the last host is lost, and two go on."""
    never, again = output / "never", output / "again"
    for folder in (never, again):
        folder.mkdir()
    how = dict(ranks=3, backend="mccl", log_dir=never / "logs", timeout=HANG_S, env=env)
    run_ranks_successfully("killed_once.py", never, **how)
    with namespaces.network(3) as network:
        strikes = {"MINDNLP_DP_RESUME": "1", "STRIKES": "3 1" if least == 3 else "3 2 with-its-launcher", **env}
        options = [f"--nnodes={least}:3", "--max-restarts=3"]
        job = Job(network.hosts, again, "torchrun", "killed_once.py", again, env=strikes, options=options)
        job.wait()
    struck, starts = float((again / "struck").read_text()), (again / "starts.rank0").read_text().split("\n")
    problems, difference = ["it never came to its end"] if not (again / "end.npz").exists() else [], None
    if not problems:
        with np.load(again / "end.npz") as ours, np.load(never / "end.npz") as theirs:
            difference = max(float(np.abs(ours[key] - theirs[key]).max()) for key in theirs.files)
        if difference > (ROUNDING if least == 2 and not env else 0):
            problems.append("parameters differ")
    began = [line.split() for line in starts if line]
    return {
        "starts": [[int(step), int(ranks)] for step, ranks, _ in began],
        "seconds": round(float(began[-1][2]) - struck, 1),
        "difference": difference,
        "problems": problems,
    }


def summary(results):
    lines = ["Hosts are network namespaces of one machine, joined by a switch; one rank on each.", ""]
    lines += ["| started by | hosts | ranks | parameters differ from one process by |", "| --- | --- | --- | --- |"]
    for result in results["equal"]:
        verdict, difference = said_of(result, "equal to the last bit"), result.get("difference")
        lines.append(f"| {' | '.join(map(str, result['case']))} | {verdict} | {difference} |")
    for result in results["disks"]:
        on = "a shared disk" if result["case"][0] == "mpirun" else "shared and on separate disks"
        verdict = said_of(result, f"resumes as if never stopped, on {on}")
        lines += ["", f"{result['case'][0]}: {verdict}."]
    lines += ["", "| started by | hosts | what happens | ranks are gone after (s) | launchers after (s) | first said |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for result in results["ends"]:
        cells = [", ".join(map(str, result.get(what, []))) for what in ("seconds", "launchers")]
        cells.append("<br>".join(result.get("said", [])) or said_of(result, ""))
        lines.append(f"| {' | '.join(map(str, (*result['case'], *cells)))} |")
    lines += ["", "| torchrun, three hosts, lost at step 3 | step and ranks of each start | seconds | difference |"]
    lines += ["| --- | --- | --- | --- |"]
    for result in results["restarts"]:
        least, env = result["case"]
        what = "a rank is killed" if least == 3 else "a host is gone, `--nnodes=2:3`" + ", elastic" * bool(env)
        cells = (result.get("starts"), result.get("seconds"), said_of(result, str(result.get("difference"))))
        lines.append(f"| {what} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def said_of(result, otherwise):
    """What went wrong, if anything."""
    return "; ".join(result["problems"]).replace("\n", " ") or otherwise


if __name__ == "__main__":
    main()
