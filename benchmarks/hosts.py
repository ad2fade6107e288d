"""Train on several hosts, which are network namespaces of this machine, and let them fail: ``make hosts``.

    python benchmarks/hosts.py

Needs root and iproute2. Results are written to ``benchmarks/results/hosts_<cpu>_<date>.json`` and ``.md``. Run it on an
idle machine: times are part of what it checks.
"""

import json
import os
import secrets
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from rich.progress import Progress

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import namespaces
from benchmarks.record import write_results
from tests.distributed.test_fewer_nodes import ROUNDING, steps_of
from tests.distributed.test_oracle import assert_equal_within_rounding
from tests.harness import PROGRAMS, REPOSITORY, kill_tree, run_ranks_successfully
from tests.programs.scenarios import SCENARIOS

SCENARIO = "bert_adamw"
PROGRAMS_HERE = Path(__file__).parent / "programs"
PORT = 8118
LIMIT_S = 15
SECRET = secrets.token_hex(16)
HANG_S = 240
NEVER_ENDS = 10**6  # steps
MICRO_BATCHES, ELASTIC_CASES = 6, ("adamw", "zero2", "tokens")
SIZES = {"1 KB": 2**10, "256 KB": 2**18, "4 MB": 2**22, "32 MB": 2**25}
BYTES_PER_S, DELAY_S = 1e9 / 8, 0.005
# What a first line does in a script of one's own.
WITH_THE_PLUGIN = (
    "import runpy, sys, mindnlp_dp_plugin; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"
)
LOST_AT, BACK_AT = 3, 5  # steps at which a host is lost, and is back
SNAPSHOT_S, GO_ON_S = 3, 30
LINK_DOWN = "the last host's link goes down"
FAULTS = {  # as tests/programs/faults.py reads them
    "SIGKILL of rank 1": "backward:4:1:SIGKILL:0.01",
    "an exception on rank 0": "backward:4:0:exception:0.01",
    LINK_DOWN: "",
}


def main():
    namespaces.require_root_and_iproute2()
    parts = {
        "equal": (train_as_one_process, [(2, "mccl"), (3, "mccl"), (2, "mpi"), (3, "mpi")]),
        "file_systems": (stop_and_resume, [()]),
        "ends": (end_badly, [(num_hosts, fault) for num_hosts in (2, 3) for fault in FAULTS]),
        "one_less": (go_on_without_a_host, [(False,), (True,)]),
        "any_number": (train_as_on_one_host, [(2, "mccl"), (3, "mccl"), (3, "mpi")]),
        "all_reduces": (time_all_reduces, [("socket",), ("mccl",), ("mpi",)]),
    }
    results = {}
    with tempfile.TemporaryDirectory(prefix="mindnlp-dp-hosts-") as name, Progress() as progress:
        steps = progress.add_task("hosts", total=sum(len(cases) for _, cases in parts.values()))
        for part, (measure, cases) in parts.items():
            results[part] = []
            for number, case in enumerate(cases):
                progress.update(steps, description=" ".join(map(str, (part, *case))))
                output = Path(name, f"{part}_{number}")
                output.mkdir()
                results[part].append({"case": case, **measure(output, *case)})
                progress.advance(steps)
    write_results("hosts", results, summary(results))
    sys.exit(any(result.get("problems") for part in results.values() for result in part))


class Job:
    """A program on every host, one rank on each, started the way a user starts it.

    Args:
        hosts: Where.
        output: Where the logs go.
        program: What.
        arguments: Its arguments.
        engine: ``mccl``: ``mindnlp-dp run`` on each host. ``mpi``: ``mpirun`` on host 0, with a list of hosts.
            ``socket``: Python on each host, told who it is by three arguments more.
        env: More variables.
        folders: The current directory on each host.
        options: More of ``mindnlp-dp run``.
    """

    def __init__(self, hosts, output, program, *arguments, engine="mccl", env=None, folders=None, options=()):
        program = [*options, PROGRAMS / program, *arguments]
        starters = {"mccl": self._of_ours, "mpi": self._of_mpirun, "socket": self._of_python}
        self._env = {**os.environ, "PYTHONPATH": str(REPOSITORY), "MINDNLP_DP_SECRET": SECRET, **(env or {})}
        commands = starters[engine](hosts, output, program)
        self._commands = [host.command(command) for host, command in zip(hosts, commands)]
        self._folders = folders or [output] * len(hosts)
        self._texts = [output / f"said_on_host{number}" for number in range(len(commands))]
        self._processes = [self._start(number) for number in range(len(commands))]

    def start_again(self, number):
        """A host is switched off and on again."""
        kill_tree(self._processes[number].pid)
        self._processes[number].wait()
        self._processes[number] = self._start(number)

    def wait(self):
        """For each launcher its exit code, what it said and when it ended (``time.time()``)."""
        deadline = time.monotonic() + HANG_S
        ended = {}
        while len(ended) < len(self._processes) and time.monotonic() < deadline:
            for number, process in enumerate(self._processes):
                if number not in ended and process.poll() is not None:
                    ended[number] = time.time()
            time.sleep(0.02)
        for process in self._processes:
            kill_tree(process.pid)
        return [
            (process.returncode, text.read_text(), ended.get(number))
            for number, (process, text) in enumerate(zip(self._processes, self._texts))
        ]

    def wait_successfully(self):
        """Ends this program, with all that was said, unless all launchers end with 0."""
        ends = self.wait()
        if any(exit_code for exit_code, *_ in ends):
            sys.exit("\n".join(f"{exit_code}: {said}" for exit_code, said, _ in ends))

    def _start(self, number):
        return subprocess.Popen(
            self._commands[number],
            stdin=subprocess.DEVNULL, stdout=self._texts[number].open("a"), stderr=subprocess.STDOUT,
            env=self._env, cwd=self._folders[number], start_new_session=True,
        )  # fmt: skip

    def _of_ours(self, hosts, output, program):
        run = [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--nproc", 1, "--backend", "mccl"]
        meeting = ["--nnodes", len(hosts), "--master-addr", hosts[0].address, "--master-port", PORT]
        return [
            [*run, *meeting, "--node-rank", node_rank, "--log-dir", output / f"logs_{node_rank}", *program]
            for node_rank in range(len(hosts))
        ]

    def _of_python(self, hosts, output, program):
        return [[sys.executable, *program, node_rank, hosts[0].address, PORT] for node_rank in range(len(hosts))]

    def _of_mpirun(self, hosts, output, program):
        # What ssh is to a real cluster.
        agent = output / "agent"
        cases = "\n".join(f'{host.address}) exec {shlex.join(host.command(["sh", "-c"]))} "$*";;' for host in hosts)
        agent.write_text(f'#!/bin/sh\naddress=$1\nshift\ncase "$address" in\n{cases}\nesac\n')
        agent.chmod(0o700)
        mpirun = [Path(sys.executable).with_name("mpirun"), "--allow-run-as-root", "--bind-to", "none"]
        mpirun += ["--prtemca", "plm_ssh_agent", agent, "--mca", "btl", "self,tcp"]
        mpirun += ["--mca", "btl_tcp_if_include", f"{namespaces.SUBNET}.0/24", "-x", "PYTHONPATH"]
        mpirun += ["--mca", "mpi_yield_when_idle", "1"]  # it cannot know that the hosts share their cores
        places = ",".join(f"{host.address}:1" for host in hosts)
        return [[*mpirun, "-n", len(hosts), "-H", places, sys.executable, "-c", WITH_THE_PLUGIN, *program]]


def train_as_one_process(output, num_hosts, engine):
    """Ranks on as many hosts against one process with their batches together, as the oracle test compares them."""
    alone = output.parent / f"as_{num_hosts}_ranks"
    if not alone.exists():
        alone.mkdir()
        job = dict(ranks=1, backend="auto", log_dir=alone / "logs", timeout=HANG_S)
        run_ranks_successfully("train_scenarios.py", alone, num_hosts, SCENARIO, **job)
    with namespaces.network(num_hosts) as network:
        Job(network.hosts, output, "train_scenarios.py", output, num_hosts, SCENARIO, engine=engine).wait_successfully()
    expected = np.load(alone / f"{SCENARIO}.rank0.npz")
    ranks = [np.load(output / f"{SCENARIO}.rank{rank}.npz") for rank in range(num_hosts)]
    are_one = all(
        np.array_equal(rank[what], ranks[0][what]) for rank in ranks for what in ("digests", "gradients", "losses")
    )
    problems = [] if are_one else ["ranks differ"]
    try:
        assert_equal_within_rounding(ranks[0], expected, SCENARIOS[SCENARIO].tolerances)
    except AssertionError as error:
        problems.append(f"not as one process: {error}")
    difference = float(np.abs(ranks[0]["parameters"] - expected["parameters"]).max())
    return {"num_steps": len(expected["losses"]), "largest_difference": difference, "problems": problems}


def train_as_on_one_host(output, num_hosts, engine):
    """With ``elastic_determinism``, one rank on each host against one process: nothing may differ."""
    words = ("any_number_of_ranks.py", output, MICRO_BATCHES, *ELASTIC_CASES)
    alone = dict(ranks=1, backend="auto", log_dir=output / "logs", timeout=HANG_S)
    run_ranks_successfully(*words, **alone)
    with namespaces.network(num_hosts) as network:
        Job(network.hosts, output, *words, engine=engine).wait_successfully()
    problems = []
    for case in ELASTIC_CASES:
        ours, theirs = (json.loads((output / f"{case}.{ranks}.json").read_text()) for ranks in (num_hosts, 1))
        problems += [f"{case}: {what} differ" for what in theirs if ours[what] != theirs[what]]
    return {"num_steps": len(theirs["digests"]), "problems": problems}


def stop_and_resume(output):
    """Two hosts train, stop and resume: in a folder that both see, and in one of which each has its own."""
    disks = [output / "disk_of_host0", output / "disk_of_host1"]
    for disk in disks:
        disk.mkdir()
    with namespaces.network(2) as network:
        Job(network.hosts, output, "file_systems.py", "own", "../shared", folders=disks).wait_successfully()
    first, second = (json.loads((disk / "own" / "ended.json").read_text()) for disk in disks)
    written = [sorted(path.name for path in (disk / "own" / "whole").glob("checkpoint-*")) for disk in disks]
    is_right = {
        "both hosts end alike": first == second,
        "host 0 alone writes": written[0] and not written[1],
        "resumed from the shared folder": first["shared"] == first["whole"],
        "resumed from what each has written": first["own_on_each_node"] == first["whole"],
        "refused without": str(first["own"]).startswith("Cannot resume: rank 0 on host0 has checkpoint-2"),
        "refused to write twice": str(first["shared_on_each_node"]).startswith("save_on_each_node=True, but several"),
    }
    problems = [f"not {what}: {first} {second} {written}" for what, holds in is_right.items() if not holds]
    return {"said": {what: first[what] for what in ("own", "shared_on_each_node")}, "problems": problems}


def end_badly(output, num_hosts, fault):
    """One rank fails, or the last host's link goes down, in the middle of training; what each launcher makes of it."""
    with namespaces.network(num_hosts) as network:
        env = {"FAULTS": FAULTS[fault], "FAULT_FOLDER": str(output)}
        job = Job(network.hosts, output, "struck.py", output, NEVER_ENDS, env=env)
        if fault == LINK_DOWN:
            wait_for(output / "trainer" / "checkpoint-4")
            struck = time.time()
            network.hosts[-1].cut()
        ends = job.wait()
    if fault == LINK_DOWN:
        *remaining, vanished = network.hosts
        blamed = [f"node {num_hosts - 1} ({vanished.name}) has vanished"] * len(remaining)
        blamed.append(f"node 0 ({remaining[0].address}), as seen from here, has vanished")
    else:
        struck = float((output / "struck_0").read_text())
        blamed = [f"rank {FAULTS[fault].split(':')[2]} on "] * num_hosts
    seconds, words, problems = [], [], []
    for host, (exit_code, said, ended), culprit in zip(network.hosts, ends, blamed):
        seconds.append(ended and round(ended - struck, 2))
        words.append(last_words(said))
        if not exit_code or not ended or seconds[-1] > LIMIT_S or not words[-1].startswith(culprit):
            problems.append(f"{host.name}: exit code {exit_code} after {seconds[-1]} s: {words[-1]}")
    return {"seconds": seconds, "exit_codes": [code for code, *_ in ends], "words": words, "problems": problems}


def go_on_without_a_host(output, is_elastic):
    """Of three hosts one is cut off and two go on; it comes back, and is taken in at the next restart."""
    bound, elastic = (0.0, {"MINDNLP_DP_ELASTIC_DETERMINISM": "1"}) if is_elastic else (ROUNDING, {})
    never, again = output / "never", output / "again"
    for folder in (never, again):
        folder.mkdir()
    run_ranks_successfully(
        "fewer_nodes.py", never, ranks=3, backend="mccl", log_dir=never / "logs", timeout=HANG_S, env=elastic
    )  # fmt: skip
    env = {**elastic, "MINDNLP_DP_SNAPSHOT_EVERY": "1", "WAITS_AT": f"{LOST_AT} {BACK_AT}"}
    options = ("--nnodes", "2:3", "--max-restarts", 1)
    with namespaces.network(3) as network:
        job = Job(network.hosts, again, "fewer_nodes.py", again, env=env, options=options)
        for rank in range(3):
            wait_for_step(again, rank, LOST_AT)
        time.sleep(SNAPSHOT_S)
        struck = time.time()
        network.hosts[2].cut()
        for rank in range(2):
            wait_for_step(again, rank, BACK_AT)
        network.hosts[2].mend()
        job.start_again(2)
        time.sleep(SNAPSHOT_S)
        failed = time.time()
        (again / "fail").touch()
        ends = job.wait()
    with np.load(again / "end.npz") as ours, np.load(never / "end.npz") as theirs:
        difference = max(float(np.abs(ours[key] - theirs[key]).max()) for key in theirs.files)
    starts = [list(map(float, (again / f"starts.rank{rank}").read_text().split())) for rank in range(3)]
    seconds = [round(starts[0][1] - struck, 1), round(starts[0][2] - failed, 1)]
    is_right = {
        "all launchers end with 0": not any(exit_code for exit_code, *_ in ends),
        f"on within {GO_ON_S} s": seconds[0] <= GO_ON_S,
        "host 2 is there at the first and the third start": len(starts[2]) == 2,
        f"parameters within {bound} of three hosts'": difference <= bound,
    }
    problems = [f"not {what}: {seconds} {difference} {ends}" for what, holds in is_right.items() if not holds]
    return {"seconds": seconds, "largest_difference": difference, "problems": problems}


def wait_for_step(output, rank, step):
    deadline = time.monotonic() + HANG_S
    while (counted := steps_of(output, rank)) != step:
        if time.monotonic() > deadline:
            sys.exit(f"rank {rank} is at step {counted}, never at {step}")
        time.sleep(0.05)


def last_words(said):
    """The line in which a launcher says why it ends; all that was said if there is none."""
    lines = (line for line in said.splitlines() if line.startswith("mindnlp-dp: ") and "waiting up to" not in line)
    return next(lines, said).removeprefix("mindnlp-dp: ").partition(". All ranks here")[0]


def time_all_reduces(output, engine):
    """Two hosts, the link as it is and slowed, beside what the cost model of the ring says."""
    program = PROGRAMS_HERE / ("plain_sockets.py" if engine == "socket" else "all_reduces.py")
    times = {}
    for link in ("as_it_is", "slow"):
        folder = output / link
        folder.mkdir()
        with namespaces.network(2) as network:
            if link == "slow":  # from the start: TCP believes for long what it has found out about a link
                network.slow_down(BYTES_PER_S, DELAY_S)
            Job(network.hosts, folder, program, folder, *SIZES.values(), engine=engine).wait_successfully()
        times[link] = json.loads((folder / "seconds.json").read_text())
    return {**times, "model": [ring_seconds(2, size) for size in SIZES.values()]}


def ring_seconds(num_ranks, num_bytes):
    """2(N-1) messages one after the other, and 2(N-1)/N of the bytes through every link (Patarasuk and Yuan, 2009)."""
    num_messages = 2 * (num_ranks - 1)
    return num_messages * DELAY_S + num_messages / num_ranks * num_bytes / BYTES_PER_S


def wait_for(path):
    deadline = time.monotonic() + HANG_S
    while not path.exists():
        if time.monotonic() > deadline:
            sys.exit(f"{path} never came")
        time.sleep(0.02)


def summary(results):
    lines = ["Hosts are network namespaces of one machine, joined by a switch; one rank on each.", ""]
    lines += [
        f"`{SCENARIO}` on N hosts against one process with N times the batch:",
        "",
        "| hosts | started by | steps | ranks | parameters differ from one process by |",
        "| --- | --- | --- | --- | --- |",
    ]
    starters = {"mccl": "mindnlp-dp run on each", "mpi": "mpirun with a host list"}
    for result in results["equal"]:
        num_hosts, engine = result["case"]
        verdict = "; ".join(result["problems"]) or "equal to the last bit"
        steps, difference = result["num_steps"], result["largest_difference"]
        lines.append(f"| {num_hosts} | {starters[engine]} | {steps} | {verdict} | {difference:.1e} |")
    (file_systems,) = results["file_systems"]
    same_end = "; ".join(file_systems["problems"]) or "goes on, and ends as if never stopped, to the last bit"
    said = file_systems["said"]
    lines += [
        "",
        "| output_dir | save_on_each_node | checkpoints are on | resuming |",
        "| --- | --- | --- | --- |",
        f"| shared | no | the shared disk, from rank 0 | {same_end} |",
        f"| shared | yes | refused | {said['shared_on_each_node']} |",
        f"| one on each host | no | host 0 | {said['own']} |",
        f"| one on each host | yes | both | {same_end} |",
    ]
    lines += [
        "",
        "| hosts | what happens | seconds until each launcher is gone | exit codes | said on host 0, 1, ... |",
    ]
    lines += ["| --- | --- | --- | --- | --- |"]
    for result in results["ends"]:
        num_hosts, fault = result["case"]
        seconds, codes = (", ".join(map(str, result[what])) for what in ("seconds", "exit_codes"))
        said = "<br>".join(result["problems"] or result["words"])
        lines.append(f"| {num_hosts} | {fault} | {seconds} | {codes} | {said} |")
    for one_less in results["one_less"]:
        gone, back = one_less["seconds"]
        elastic = ", with `elastic_determinism`" if one_less["case"][0] else ""
        lines += [
            "",
            f"`--nnodes 2:3`{elastic}, a snapshot after each step: host 2 of three is cut off at step {LOST_AT}; "
            f"{gone} s later two have made the next step. It is switched on again, and a rank fails at step {BACK_AT}; "
            f"{back} s later three have made the next. Parameters differ from those of three hosts that were left "
            f"alone by {one_less['largest_difference']:.1e}. {'; '.join(one_less['problems'])}",
        ]
    lines += [
        "",
        f"`elastic_determinism={MICRO_BATCHES}` on N hosts against one process ({', '.join(ELASTIC_CASES)}):",
        "",
    ]
    for result in results["any_number"]:
        num_hosts, engine = result["case"]
        verdict = "; ".join(result["problems"]) or "parameters, losses, metrics and checkpoints equal to the last bit"
        lines.append(f"- {num_hosts} hosts, {starters[engine]}, {result['num_steps']} steps: {verdict}")
    lines += [
        "",
        f"All-reduce of float32 between 2 hosts, milliseconds. Slow: {BYTES_PER_S * 8e-9:g} Gbit/s and "
        f"{DELAY_S * 1000:g} ms each way, made by `programs/wire.py`. Model of the ring: 2(N-1) alpha + 2(N-1)/N K/B.",
        "",
        "`socket` is no all-reduce but the exchange of such messages between two plain sockets: what the link allows.",
        "",
        "| message | engine | link as it is | slow | model |",
        "| --- | --- | --- | --- | --- |",
    ]
    for index, size in enumerate(SIZES):
        for result in results["all_reduces"]:
            as_it_is, slow, model = (f"{1000 * result[what][index]:.2f}" for what in ("as_it_is", "slow", "model"))
            lines.append(f"| {size} | {result['case'][0]} | {as_it_is} | {slow} | {model} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
