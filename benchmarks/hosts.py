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
from itertools import product
from pathlib import Path

import numpy as np
import psutil
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import namespaces
from benchmarks.record import write_results
from tests.harness import PROGRAMS, REPOSITORY, kill_tree, run_ranks_successfully

PORT, HANG_S, LAUNCHER_S, ROUNDING = 8118, 600, 60, 1e-6
# What a first line does in a script of one's own.
PLUGIN = "import runpy, sys, mindnlp_dp_plugin; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
ENGINES, SIZES = ("msrun", "mpirun", "torchrun"), ((2, 1), (3, 1), (2, 2))  # hosts, and ranks on each
KILLED, LINK_DOWN = "rank 1 is killed", "the last host's link goes down"
FILE_SYSTEMS = Path(__file__).parent / "programs/file_systems.py"
PROGRAMS_COMPARED = {"train_scenarios.py": "bert_adamw", "evaluation_scenarios.py": "any_number_of_rows"}
# Where somebody says who is lost.
NAMES = r"(?i)^.*(rank \d+ (is gone|has failed)|process rank \d+|exitcode|daemon failed|timed out node|lost conn).*$"


class Job:
    """A program on every host, started the way a user starts it: its arguments, more of torchrun's, more variables."""

    def __init__(self, hosts, engine, output, *program, per_host=1, options=(), disks=None, **env):
        self.hosts, self.launchers, self.texts = hosts, [], []
        words = ["python", "-c", PLUGIN, PROGRAMS / program[0], *program[1:]]
        disks, env = disks or [output] * len(hosts), {**os.environ, "PYTHONPATH": str(REPOSITORY), **env}
        for host, disk, line in zip(hosts, disks, LINES[engine](hosts, per_host, output, words, disks, options)):
            self.texts.append(output / f"said_on_{host.name}")
            with self.texts[-1].open("w") as text:
                how = dict(stdin=subprocess.DEVNULL, stdout=text, stderr=subprocess.STDOUT, start_new_session=True)
                self.launchers.append(subprocess.Popen(host.command(line), env=env, cwd=disk, **how))

    def wait(self, is_to_succeed=True):
        """Until all launchers have ended."""
        if any([launcher.wait(HANG_S) for launcher in self.launchers]) and is_to_succeed:
            raise RuntimeError("\n".join(text.read_text(errors="replace") for text in self.texts))

    def seconds_until_the_end(self, since):
        """How long after a time no rank was left on each host, and each launcher had ended; None if none soon had."""
        are_over = [lambda host=host: not any(map(is_rank, host.members())) for host in self.hosts]
        are_over += [lambda launcher=launcher: launcher.poll() is not None for launcher in self.launchers]
        seconds, deadline = [None] * len(are_over), time.time() + HANG_S
        while None in seconds and time.time() < deadline:
            for number, is_over in enumerate(are_over):
                if seconds[number] is None and is_over():
                    seconds[number], deadline = round(time.time() - since, 1), time.time() + LAUNCHER_S
            time.sleep(0.05)
        for launcher in self.launchers:
            kill_tree(launcher.pid)
        return seconds[: len(self.hosts)], seconds[len(self.hosts) :]


def of_msrun(hosts, per_host, output, words, disks, options):
    places = [f"--worker_num={len(hosts) * per_host}", f"--local_worker_num={per_host}", f"--master_port={PORT}"]
    places += [f"--master_addr={hosts[0].address}", "--join=True"]
    for rank, host in enumerate(hosts):
        yield ["msrun", *places, f"--node_rank={rank}", f"--log_dir={output / host.name}", *words]


def of_torchrun(hosts, per_host, output, words, disks, options):
    run = [
        os.path.abspath(sys.argv[1]),
        "-m",
        "torch.distributed.run",
        f"--nproc-per-node={per_host}",
        "--rdzv-backend=c10d",
    ]
    run += [*(options or [f"--nnodes={len(hosts)}"]), f"--rdzv-endpoint={hosts[0].address}:{PORT}"]
    for host in hosts:  # they know no names: a cluster's do, and need neither of these
        known = [f"--local-addr={host.address}", f"--rdzv-conf=is_host={host is hosts[0]},last_call_timeout=5"]
        yield [*run, *known, "--no-python", *words]


def of_mpirun(hosts, per_host, output, words, disks, options):
    agent = output / "agent"  # what ssh is to a real cluster
    cases = (f'{host.address}) exec {shlex.join(host.command(["sh", "-c"]))} "$*";;' for host in hosts)
    agent.write_text("#!/bin/sh\naddress=$1\nshift\ncase $address in\n" + "\n".join(cases) + "\nesac\n")
    agent.chmod(0o700)
    line = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--prtemca", "plm_ssh_agent", agent]
    line += ["--mca", "btl", "self,sm,tcp", "--mca", "btl_tcp_if_include", f"{namespaces.SUBNET}.0/24"]
    line += ["--mca", "mpi_yield_when_idle", "1", "-x", "PYTHONPATH"]  # the hosts share their cores
    for host, disk in zip(hosts, disks):
        line += ["-n", per_host, "-H", f"{host.address}:{per_host}", "--wdir", disk, *words, ":"]
    yield line[:-1]


LINES = {"msrun": of_msrun, "mpirun": of_mpirun, "torchrun": of_torchrun}


def is_rank(pid):
    """Whether a process is a rank, not what has started it nor MindSpore's scheduler."""
    try:
        process = psutil.Process(pid)
        return process.cmdline()[1:3] == ["-c", PLUGIN] and process.environ().get("MS_ROLE") != "MS_SCHED"
    except psutil.Error:
        return False


def arrays(path):
    """What a rank has left, of what must be the same on all and as in one process."""
    with np.load(path) as kept:
        return {"parameters": kept["parameters"]} if "parameters" in kept else dict(kept)


def apart(ours, theirs):
    """How far the most different two numbers are apart; NaN if one of them alone is that."""
    pairs = [(np.asarray(ours[name], float), np.asarray(theirs[name], float)) for name in theirs]
    return float(np.max([0 if np.array_equal(a, b, equal_nan=True) else np.abs(a - b).max() for a, b in pairs]))


def equal(output, engine, num_hosts, per_host):
    """Training and evaluation against one process with the ranks' batches together, and the ranks with each other."""
    number, said = num_hosts * per_host, []
    with namespaces.network(num_hosts) as hosts:
        for program, scenario in PROGRAMS_COMPARED.items():
            alone = output.parent / f"alone_as_{number}"
            alone.mkdir(exist_ok=True)
            if not (alone / f"{scenario}.rank0.npz").exists():
                how = dict(ranks=1, backend="auto", log_dir=alone / "logs", timeout=HANG_S)
                run_ranks_successfully(program, alone, number, scenario, **how)
            Job(hosts, engine, output, program, output, number, scenario, per_host=per_host).wait()
            first, *others = (arrays(output / f"{scenario}.rank{rank}.npz") for rank in range(number))
            difference = apart(first, arrays(alone / f"{scenario}.rank0.npz"))
            assert difference <= ROUNDING, f"{scenario} differs from one process by {difference}"
            assert all(apart(other, first) == 0 for other in others), f"{scenario}: ranks differ"
            said.append(f"{scenario}: ranks are equal to the last bit, and to one process within {difference:.1e}")
    return "; ".join(said)


def disks(output, engine):
    """Two hosts stop and resume: in a folder that both see, and in one of which each has its own."""
    folders = [output / "disk_of_host0", output / "disk_of_host1"]
    for folder in folders:
        folder.mkdir()
    with namespaces.network(2) as hosts:
        Job(hosts, engine, output, FILE_SYSTEMS, "own", "../shared", disks=folders).wait()
    first, other = (json.loads((folder / "own" / "ended.json").read_text()) for folder in folders)
    assert other == first, (first, other)
    assert first["shared"] == first["own_on_each_node"] == first["whole"], first
    assert first["shared_on_each_node"].startswith("save_on_each_node=True, but several"), first
    assert "rank 0 on host0 has checkpoint-2" in first["own"], first
    return "resumes as if never stopped, on a shared disk and on separate disks"


def ends(output, engine, num_hosts, per_host, fault):
    """How soon ranks are gone, launchers, and what is said first on each host."""
    strikes = {"FAULTS": "backward:4:1:SIGKILL:0.01" if fault == KILLED else "", "FAULT_FOLDER": str(output)}
    struck, deadline = output / ("struck_0" if fault == KILLED else "trainer/checkpoint-4"), time.time() + HANG_S
    with namespaces.network(num_hosts) as hosts:
        job = Job(hosts, engine, output, "struck.py", output, 10**6, per_host=per_host, **strikes)
        while not struck.exists():
            assert time.time() < deadline, [text.read_text(errors="replace")[-500:] for text in job.texts]
            time.sleep(0.02)
        since = float(struck.read_text()) if fault == KILLED else time.time()
        if fault == LINK_DOWN:
            hosts[-1].cut()
        ranks, launchers = job.seconds_until_the_end(since)
    assert None not in ranks, f"ranks are left: {ranks}"
    said = [re.search(NAMES, text.read_text(errors="replace"), re.MULTILINE) for text in job.texts]
    return f"ranks after {ranks} s, launchers after {launchers} s: " + " / ".join(
        each[0][:200] for each in said if each
    )


def restarts(output, least, elastic):
    """torchrun on three hosts: rank 1 is killed, and all start again; or the last host is lost, and two go on."""
    never, again = output / "never", output / "again"
    never.mkdir()
    again.mkdir()
    env = {"MINDNLP_DP_ELASTIC_DETERMINISM": "6"} if elastic else {}
    run_ranks_successfully(
        "killed_once.py", never, ranks=3, backend="mccl", log_dir=never / "logs", timeout=HANG_S, env=env
    )
    strikes = {"MINDNLP_DP_RESUME": "1", "STRIKES": "3 1" if least == 3 else "3 2 with-its-launcher", **env}
    options = [f"--nnodes={least}:3", "--max-restarts=3"]
    with namespaces.network(3) as hosts:
        Job(hosts, "torchrun", again, "killed_once.py", again, options=options, **strikes).wait(least == 3)
    starts = [line.split() for line in (again / "starts.rank0").read_text().splitlines()]
    difference = apart(arrays(again / "end.npz"), arrays(never / "end.npz"))
    assert difference <= (ROUNDING if least == 2 and not elastic else 0), f"parameters differ by {difference}"
    seconds = float(starts[-1][2]) - float((again / "struck").read_text())
    begun = ", ".join(f"step {step} on {ranks}" for step, ranks, _ in starts)
    return f"{begun}; {seconds:.1f} s from the loss to the end of a step; differs by {difference:.1e} from never lost"


CASES = [
    *((equal, engine, *size) for engine, size in product(ENGINES, SIZES)),
    *((disks, engine) for engine in ENGINES),
    *((ends, engine, *size, fault) for size, engine, fault in product(SIZES, ENGINES, (KILLED, LINK_DOWN))),
    *((restarts, *case) for case in ((2, False), (3, False), (2, True))),
]


def main():
    results, lines = [], ["Hosts are network namespaces of one machine, joined by a switch.", ""]
    lines += ["| part | started by, hosts, ranks on each | what came of it |", "| --- | --- | --- |"]
    cases = [case for case in CASES if case[0].__name__ in (sys.argv[2:] or [each[0].__name__ for each in CASES])]
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-hosts-") as name:
        for number, (run, *case) in track(list(enumerate(cases)), "hosts"):
            output = Path(name, str(number))
            output.mkdir()
            result = {"part": run.__name__, "case": case, "problem": ""}
            try:
                result["said"] = run(output, *case)
            except (AssertionError, RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                result["problem"] = result["said"] = str(error)[-1000:]
            results.append(result)
            lines.append(f"| {run.__name__} | {', '.join(map(str, case))} | {' '.join(result['said'].split())} |")
            write_results("hosts", {"cases": results}, "\n".join(lines), shows=False)
    print("\n".join(lines))
    sys.exit(any(result["problem"] for result in results))


if __name__ == "__main__":
    main()
