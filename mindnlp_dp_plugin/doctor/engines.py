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
from mindnlp_dp_plugin.doctor.ascend import CANN, trouble_in
from mindnlp_dp_plugin.doctor.finding import Finding, failure, last_words, ok, warning
from mindnlp_dp_plugin.job.signals import end_with_parent
from mindnlp_dp_plugin.job.variables import DEFERRED, of_setting
from mindnlp_dp_plugin.language import Message, tr
from mindnlp_dp_plugin.launch import backends

LIMIT_S, GRACE_S = 60, 10
OUT_OF_TIME = 124  # of the command timeout
# Not the command, which refuses where a system speaks of several nodes.
LAUNCHER = """
import sys
from pathlib import Path
from mindnlp_dp_plugin.launch.job import Job
from mindnlp_dp_plugin.launch.launcher import launch
backend, log_dir, *command = sys.argv[1:]
sys.exit(launch(Job(command, 2, backend, Path(log_dir))))
"""
MODULE = "mindnlp_dp_plugin.bench.on_ranks"
SIZES = {2**10: "1 KB", 2**20: "1 MB", 2**24: "16 MB"}


def to_try() -> list[str]:
    """The engines that work on this node; only the one that ``MINDNLP_DP_BACKEND`` names, if it does."""
    asked = os.environ.get(of_setting("backend"))
    return [asked] if asked in ENGINES else backends.usable_here()


def all_reduce(backend: str) -> Finding:
    """A real all-reduce between two ranks, checked and timed.

    A problem is a failure if ``mindnlp-dp run`` would choose this engine, otherwise a warning.
    """
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder, "result.json")
        said = _run(backend, Path(folder, "logs"), result)
        seconds = {} if said else json.loads(result.read_text())
    if not said:
        speeds = {name: size / 2**20 / seconds[str(size)] for size, name in SIZES.items()}
        found = ", ".join(f"{name}: {speed:.{0 if speed >= 10 else 1}f} MB/s" for name, speed in speeds.items())
        return ok(found, {"mb_per_s": speeds})
    first, *others = to_try()
    if backend != first:
        return warning(_cause(said), tr("use --backend {backend}, as mindnlp-dp run does by itself", backend=first))
    way_out = Message("--backend {others}, if that one works; otherwise fix this")
    mend = tr(way_out, others=" | ".join(others)) if others else tr("fix this, then try again")
    return trouble_in(said, CANN) or failure(_cause(said), mend)


def _run(backend, log_dir, result) -> str | None:
    """Runs the ranks; returns what the launcher said if something went wrong."""
    launcher = [sys.executable, "-c", LAUNCHER, backend, log_dir, "-m", MODULE, result, *map(str, SIZES)]
    ended = subprocess.run(
        ["timeout", "--foreground", f"--kill-after={GRACE_S}", str(LIMIT_S), *launcher],
        env={**os.environ, DEFERRED: "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        preexec_fn=partial(end_with_parent, signal.SIGTERM),
    )
    if ended.returncode == OUT_OF_TIME:
        return tr("no result within {seconds} s: two ranks start, but do not meet, or hang", seconds=LIMIT_S)
    return (ended.stderr or last_words(ended)) if ended.returncode else None


def _cause(said) -> str:
    """The launcher's line that names the failure, and the last line of the traceback or log below it."""
    note = tr("note: {text}", text="")
    lines = [line.strip() for line in said.splitlines() if line.strip() and note not in line]
    own = [line for line in lines if line.startswith("mindnlp-dp:")]
    details = [line for line in lines if not line.startswith("mindnlp-dp:") and line.strip("-")]
    return ": ".join([*own[:1], *details[-1:]]).removeprefix("mindnlp-dp: ")
