"""Whichever rank dies, in whatever way, over whichever engine: it is named, the others end, and nothing is left."""

import json
import signal
import socket
import time
from itertools import product

import pytest

from mindnlp_dp_plugin.job.signals import name_of
from tests.launch.pieces import PROMPTLY_S, once_all_are_ready

BACKENDS = ("mpi", "mccl")
BROKEN = "class Broken(Exception):\n    def __str__(self): raise RuntimeError\n"
PLUGIN_ERROR = (
    "from mindnlp_dp_plugin.errors import DataParallelError; raise DataParallelError('ranks differ: do this.')"
)
SIGNALS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGRTMIN + 1)
# What the rank does, the exit status of the job, what the first line says, and a line that follows it.
WAYS = {
    "raises": ("broken()", 1, "ValueError, exit status 1", "ValueError: no such label"),
    "raises a plugin's error": (PLUGIN_ERROR, 1, "", "DataParallelError: ranks differ: do this."),
    "sys.exit": ("sys.exit(3)", 3, "exit status 3", None),
    "os._exit": ("os._exit(3)", 3, "exit status 3", None),
    "stderr is closed": ("sys.stderr.close(); raise OSError", 1, "", "Traceback (most recent call last):"),
    "fd 2 is closed": ("os.close(2); raise OSError", 1, "", "Traceback (most recent call last):"),
    "a broken exception": ("raise Broken", 1, "", "Traceback (most recent call last):"),
}
WAYS |= {
    name_of(signum): (
        f"print('last words', flush=True); os.kill(os.getpid(), {signum:d})",
        128 + signum,
        f"killed by {name_of(signum)} (signal {signum:d})",
        "    last words",
    )
    for signum in SIGNALS
}
CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
SPAWNS = f"""
child = subprocess.Popen([sys.executable, '-c', {CHILD!r}], stdout=subprocess.PIPE, start_new_session={{own_session}})
child.stdout.readline()
"""
OTHERS = {
    "that sleep": "",
    "that ignore SIGTERM": "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n",
    "with children that ignore SIGTERM": SPAWNS.format(own_session=False),
    "with such children in sessions of their own": SPAWNS.format(own_session=True),
}


def cases():
    """Each way over both engines, each time on the other rank, an exception on both; what the others do takes turns."""
    for (number, way), (of_engine, backend) in product(enumerate(WAYS), enumerate(BACKENDS)):
        for rank in (0, 1) if way == "raises" else ((number + of_engine) % 2,):
            yield pytest.param(backend, rank, way, list(OTHERS)[number % len(OTHERS)])


@pytest.mark.parametrize("backend, rank, way, others", cases())
def test_a_rank_that_dies_is_named_and_ends_the_job(runner, backend, rank, way, others):
    statement, exit_code, headline, line = WAYS[way]
    setting = f"def broken():\n    raise ValueError('no such label')\n{BROKEN}{OTHERS[others]}print('before')\n"
    script = runner.script(setting + once_all_are_ready(rank, statement))
    outcome = runner.run("--nproc", "2", "--backend", backend, script)
    assert time.time() - outcome.failed_at() < PROMPTLY_S
    assert not runner.left_behind()
    assert outcome.returncode == exit_code
    first, *words = outcome.stderr.splitlines()
    assert first.startswith(f"mindnlp-dp: rank {rank} on {socket.gethostname()}") and headline in first
    assert line is None or line in words
    assert words[-1].endswith(str(outcome.log_dir / f"rank_{rank}.log"))
    failure = json.loads((outcome.log_dir / "result.json").read_text())["first_failure"]
    assert failure["rank"] == rank
    if line and line.startswith(("ValueError", "DataParallelError")):
        assert (outcome.stdout + outcome.stderr).count(line) == 1, "it is shown once, though rank 0 itself is shown"
        assert line in outcome.log(rank)
        assert outcome.stdout.startswith("before\n"), "what rank 0 has printed is not lost"
    if way == "raises":
        assert words[0] == "Traceback (most recent call last):"
        assert words[1].startswith(f'  File "{script}", line ')
    if way == "raises a plugin's error":
        assert words[0] == line and "Traceback" not in outcome.stderr
