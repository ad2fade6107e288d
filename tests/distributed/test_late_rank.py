import pytest

from tests.harness import run_ranks_successfully


@pytest.mark.slow
def test_mccl_waits_while_rank_0_tokenises(tmp_path):
    run_ranks_successfully("late_rank.py", ranks=2, backend="mccl", log_dir=tmp_path / "logs")
