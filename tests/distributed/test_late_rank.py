"""MCCL waits for a rank that comes later than MCCL would wait of its own accord."""

import pytest

from tests.harness import run_ranks_successfully

LATE = """
import time
import mindnlp_dp_plugin as dp
if dp.is_main_process():
    time.sleep(32)
dp.barrier()
assert dp.all_gather_object(dp.get_rank()) == list(range(dp.get_world_size()))
"""


@pytest.mark.slow
def test_mccl_waits_while_rank_0_tokenises(tmp_path):
    script = tmp_path / "late.py"
    script.write_text(LATE)
    run_ranks_successfully(script, ranks=2, backend="mccl", log_dir=tmp_path / "logs")
