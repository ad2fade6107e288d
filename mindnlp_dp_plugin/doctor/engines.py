"""Let two ranks, started by the plugin's launcher, sum numbers over each installed engine."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from mindnlp_dp_plugin.collectives.engines import ENGINES
from mindnlp_dp_plugin.doctor.finding import Finding, failure, ok, warning
from mindnlp_dp_plugin.doctor.settings import wanted_backend
from mindnlp_dp_plugin.job.signals import end_with_parent
from mindnlp_dp_plugin.job.variables import DEFERRED
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.launch import backends

LIMIT_S = 60
GRACE_S = 10
# Not the command, which refuses where a system speaks of several nodes.
LAUNCHER = """
import sys
from pathlib import Path
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.launcher import launch
backend, log_dir, *command = sys.argv[1:]
sys.exit(launch(Job(command, 2, backend, Path(log_dir))))
"""
PROGRAM = Path(__file__).parent / "on_ranks" / "all_reduce.py"


def to_try() -> list[str]:
    """The engines that work on this node; only the one that ``MINDNLP_DP_BACKEND`` names, if it does."""
    if wanted_backend() != "auto":
        return [wanted_backend()]
    return backends.usable_here()


def name_of(backend: str) -> str:
    """The name of an engine's check."""
    return ENGINES[backend].check


def all_reduce(backend: str) -> Finding:
    """A real all-reduce between two ranks, checked and timed.

    A problem is a failure if ``mindnlp-dp run`` would choose this engine, otherwise a warning.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        trouble = _run(backend, Path(folder, "logs"), result)
        if trouble is None:
            return _describe(name_of(backend), json.loads(result.read_text()))
    if backend == to_try()[0]:
        others = " | ".join(other for other in to_try() if other != backend)
        if others:
            hint = tr("--backend {others}, if that one works; otherwise fix this", others=others)
        else:
            hint = tr("fix this, then try again")
        return failure(name_of(backend), trouble, hint)
    return warning(
        name_of(backend), trouble, tr("use --backend {backend}, as mindnlp-dp run does by itself", backend=to_try()[0])
    )


def _run(backend, log_dir, result) -> str | None:
    """Runs the ranks; returns what went wrong, if anything."""
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, backend, log_dir, PROGRAM, result],
        env={**os.environ, DEFERRED: "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=partial(end_with_parent, signal.SIGTERM),
    )
    try:
        _, said = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        _end(process)
        return tr("no result within {seconds} s: two ranks start, but do not meet, or hang", seconds=LIMIT_S)
    return None if process.returncode == 0 else _cause(said.decode(errors="replace"))


def _end(process) -> None:
    """The launcher ends its ranks when it is told to stop; if it does not, they end with it."""
    process.send_signal(signal.SIGTERM)
    try:
        process.communicate(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _cause(said) -> str:
    """The launcher's line that names the failure, and the last line of the traceback or log below it."""
    note = tr("note: {text}", text="")
    lines = [line.strip() for line in said.splitlines() if line.strip() and note not in line]
    own = [line for line in lines if line.startswith("mindnlp-dp:")]
    details = [line for line in lines if not line.startswith("mindnlp-dp:") and line.strip("-")]
    return ": ".join([*own[:1], *details[-1:]]).removeprefix("mindnlp-dp: ")


def _describe(name, speeds) -> Finding:
    """The speed for each size of message."""
    shown = (f"{size}: {speed:.{0 if speed >= 10 else 1}f} MB/s" for size, speed in speeds.items())
    return ok(name, ", ".join(shown), mb_per_s=speeds)
