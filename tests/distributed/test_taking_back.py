import pytest

from tests.harness import run_ranks_successfully


@pytest.mark.parametrize("backend", ["mpi", pytest.param("mccl", marks=pytest.mark.slow)])
def test_uninstall_leaves_everything_as_it_was_found(tmp_path, backend):
    options = dict(ranks=2, backend=backend, log_dir=tmp_path / "logs", env={"MULTI_NPU": "true"})
    finished = run_ranks_successfully("taking_back.py", **options)
    assert "all taken back" in finished.stdout
