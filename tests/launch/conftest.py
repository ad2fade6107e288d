"""Runs ``mindnlp-dp run`` on small scripts, and makes sure that nothing it started is left behind."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from mindnlp_dp_plugin.job.environments import VARIABLES
from mindnlp_dp_plugin.job.variables import STATUS_DIR
from tests.harness import REPOSITORY, finish, start
from tests.launch.pieces import PROMPTLY_S

BARE = Path(__file__).parent / "bare"
TIMEOUT_S = 500  # scripts here sleep ten minutes: who waits for them is noticed
MARKER = "LAUNCH_TEST_MARKER"
RANK = "rank = int(os.environ.get('RANK_ID') or os.environ.get('OMPI_COMM_WORLD_RANK') or 0)\n"


@dataclass
class Outcome:
    """How a run ended."""

    returncode: int
    stdout: str
    stderr: str
    seconds: float
    log_dir: Path

    def log(self, rank):
        """The log of a rank."""
        return (self.log_dir / f"rank_{rank}.log").read_text()

    def failed_at(self):
        """When the script says, in ``failed_at``, that something went wrong (``time.time()``)."""
        return float((self.log_dir / "failed_at").read_text())


class Runner:
    """Starts ``mindnlp-dp run`` with a marker in the environment by which all its processes are found again."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.log_dir = folder / "logs"
        self._marker = uuid.uuid4().hex
        inherited = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        self.environ = {**inherited, MARKER: self._marker, "MINDNLP_DP_CPU_TUNING": "0", "FOLDER": str(self.log_dir)}
        self.environ["PYTHONPATH"] = f"{BARE}{os.pathsep}{REPOSITORY}"

    def script(self, body: str, name: str = "script.py") -> str:
        """Writes a script that knows ``rank`` and has imported what scripts here need."""
        path = self.folder / name
        path.write_text("import os, signal, subprocess, sys, time\n" + RANK + textwrap.dedent(body))
        return str(path)

    def command(self, *args: str) -> list[str]:
        """The command line of a run."""
        return [sys.executable, "-m", "mindnlp_dp_plugin.cli", "run", "--log-dir", str(self.log_dir), *args]

    def start(self, *args: str) -> subprocess.Popen:
        """Starts a run without waiting for it."""
        return start(self.command(*args), self.environ, self.folder)

    def finish(self, popen: subprocess.Popen, timeout: float = TIMEOUT_S) -> Outcome:
        """Waits for a run to end."""
        started = time.monotonic()
        ended = finish(popen, timeout)
        return Outcome(ended.returncode, ended.stdout, ended.stderr, time.monotonic() - started, self.log_dir)

    def run(self, *args: str, timeout: float = TIMEOUT_S) -> Outcome:
        """A run from start to end."""
        return self.finish(self.start(*args), timeout)

    def wait_for(self, name: str, seconds: float = TIMEOUT_S) -> None:
        """Waits until a script has made a file in the log directory."""
        deadline = time.monotonic() + seconds
        while not (self.log_dir / name).exists():
            assert time.monotonic() < deadline, f"{name} never came"
            time.sleep(0.02)

    def forget(self, pattern: str) -> None:
        """Removes what an earlier run has left in the log directory."""
        for path in self.log_dir.glob(pattern):
            path.unlink()

    def left_behind(self) -> list[psutil.Process]:
        """Living processes of this runner."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def require_nothing_left(self, seconds: float = PROMPTLY_S) -> None:
        """Fails if processes of this runner live on; a guard needs a moment to end what a killed launcher has left."""
        deadline = time.monotonic() + seconds
        while left := self.left_behind():
            assert time.monotonic() < deadline, left
            time.sleep(0.05)

    def clean_up(self) -> None:
        """Ends what is left of failed tests."""
        folders = set()
        for process in self.left_behind():
            with suppress(psutil.NoSuchProcess):
                folders.add(process.environ().get(STATUS_DIR))
                process.send_signal(signal.SIGKILL)
        for folder in folders - {None}:
            shutil.rmtree(folder, ignore_errors=True)

    def _is_ours(self, process):
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            return process.environ().get(MARKER) == self._marker
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return False


@pytest.fixture
def runner(tmp_path):
    """A runner whose processes end with the test."""
    runner = Runner(tmp_path)
    yield runner
    runner.clean_up()
