"""What a killed launcher left in shared memory goes when the next job starts; what is in use stays."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mindnlp_dp_plugin.launch.scratch_dir import PREFIX, home, scratch_dir

HOLD_ONE = """
import time
from mindnlp_dp_plugin.launch.scratch_dir import scratch_dir
with scratch_dir(2) as folder:
    (folder / "shared").write_text("memory")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def launcher():
    environ = {**os.environ, "MINDNLP_DP_DEFERRED": "1"}
    process = subprocess.Popen([sys.executable, "-c", HOLD_ONE], stdout=subprocess.PIPE, text=True, env=environ)
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_what_a_killed_launcher_left_goes_and_what_is_in_use_stays(launcher):
    folder = launcher.stdout.readline().strip()
    os.utime(folder, (0, 0))
    young = Path(tempfile.mkdtemp(prefix=PREFIX, dir=home(2)))
    try:
        with scratch_dir(2):
            assert os.listdir(folder) == ["shared"], "its launcher lives"
        launcher.kill()
        launcher.wait()
        with scratch_dir(2) as own:
            assert not os.path.exists(folder)
            assert own.is_dir() and young.is_dir()
        assert not own.exists()
    finally:
        young.rmdir()
