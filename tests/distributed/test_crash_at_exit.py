"""MindSpore's cluster sometimes crashes while Python shuts down, when all is done: that is no failure of the job."""

import pytest

from tests.harness import run_ranks

SCRIPT = """
import atexit, os, signal, sys
import mindnlp_dp_plugin as dp
dp.barrier()
if dp.get_rank() == 1:
    atexit.register(os.kill, os.getpid(), signal.SIGSEGV)
    if "too early" in sys.argv:
        os.kill(os.getpid(), signal.SIGSEGV)
"""


@pytest.mark.parametrize(("when", "exit_code"), [("at the end", 0), ("too early", 139)])
def test_a_crash_counts_until_all_ranks_have_come_to_their_end(tmp_path, when, exit_code):
    script = tmp_path / "crashes.py"
    script.write_text(SCRIPT)
    finished = run_ranks(script, when, ranks=2, backend="mccl", log_dir=tmp_path / "logs")
    assert finished.returncode == exit_code, finished.stderr
    assert ("SIGSEGV" in finished.stderr) == (exit_code != 0)
