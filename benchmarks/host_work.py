"""What averaging adds to a step on the host: operators that are dispatched, and microseconds of Python.

    python benchmarks/host_work.py

A BERT of 24 layers on a device bucket, with all-reduces that cost nothing, beside the same without averaging. Operators
are counted from MindSpore's own log, at the point where Python hands each to it. Counts are the same on any machine;
microseconds want an idle one. Writes ``benchmarks/results/host-work_<hardware>_<date>.json`` and ``.md``.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.record import write_results

PROGRAM = Path(__file__).parent / "programs" / "host_work.py"
MARK = "host_work phase: "
DISPATCHED = re.compile(r"\] (?:Run Pyboost(\w+) start|RunOp name: (\w+))")
LOG_ALL_OF_PYNATIVE = "{PYNATIVE:0}"
PHASES = {"backward": "backward, with hooks", "finish": "after backward", "clip": "clipping", "optimizer": "optimizer"}
NUM_LAYERS = 24


def count(num_layers: int) -> dict:
    """Operators that a step with averaging dispatches beyond one without, by phase.

    Args:
        num_layers: How deep the model is.

    Returns:
        ``parameters`` and ``buckets``, their numbers; ``dispatched``, how many operators the step without averaging
        dispatches by phase; ``added``, how many more of each there are with averaging, by phase and name.
    """
    with TemporaryDirectory() as folder:
        log = Path(folder, "log")
        with log.open("wb") as stream:
            numbers = _run("count", num_layers, folder, {"MS_SUBMODULE_LOG_v": LOG_ALL_OF_PYNATIVE}, stream)
        counts = _counted(log)
    alone = {phase: counts["local", phase] for phase in PHASES}
    added = {phase: counts["averaged", phase] - counts["local", phase] for phase in PHASES}
    return {
        **numbers,
        "dispatched": {phase: counter.total() for phase, counter in alone.items()},
        "added": {phase: dict(counter.most_common()) for phase, counter in added.items()},
    }


def measure(num_layers: int) -> dict:
    """Seconds of processor time that averaging takes.

    Args:
        num_layers: How deep the model is.

    Returns:
        ``seconds``: by phase, those of the reducer, and of them those within MindSpore's operators, which compute there
        and then on a CPU; ``empty_hooks``: those that MindSpore takes to call hooks that do nothing.
    """
    with TemporaryDirectory() as folder:
        return _run("time", num_layers, folder, {}, subprocess.DEVNULL)


def _run(mode, num_layers, folder, environ, stream):
    output = Path(folder, "numbers.json")
    words = [sys.executable, PROGRAM, mode, num_layers, output]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **environ}
    subprocess.run([str(word) for word in words], env=environ, stderr=stream, check=True, timeout=1800)
    return json.loads(output.read_text())


def _counted(log):
    """How often each operator is named in each phase of each way."""
    counts, phase = defaultdict(Counter), None
    with log.open(errors="replace") as lines:
        for line in lines:
            if line.startswith(MARK):
                phase = tuple(line.removeprefix(MARK).split())
            elif found := DISPATCHED.search(line):
                counts[phase][found[1] or found[2]] += 1
    return counts


def main():
    counted, measured = count(NUM_LAYERS), measure(NUM_LAYERS)
    num_parameters, num_buckets = counted["parameters"], counted["buckets"]
    seconds = measured["seconds"]
    lines = [
        f"{num_parameters} parameters in {num_buckets} buckets of 25 MB. Microseconds are per parameter: those of "
        "Python, and those within operators, which a CPU computes there and then.",
        "",
        "| phase | operators without averaging | added by averaging | us of Python | us of operators |",
        "| --- | --- | --- | --- | --- |",
    ]

    def microseconds(number):
        return f"{1e6 * number / num_parameters:.1f}"

    for phase, name in PHASES.items():
        added = ", ".join(f"{operator} {number}" for operator, number in counted["added"][phase].items())
        whole, of_operators = seconds.get(phase, (0, 0))
        times = f"{microseconds(whole - of_operators)} | {microseconds(of_operators)}"
        lines.append(f"| {name} | {counted['dispatched'][phase]} | {added or 'none'} | {times} |")
    whole, of_operators = map(sum, zip(*seconds.values()))
    lines.append(f"| together | | | {microseconds(whole - of_operators)} | {microseconds(of_operators)} |")
    lines += ["", f"MindSpore calls a hook that does nothing in {microseconds(measured['empty_hooks'])}."]
    write_results("host-work", {**counted, **measured}, "\n".join(lines))


if __name__ == "__main__":
    main()
