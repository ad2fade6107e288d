"""The docs build: each link leads somewhere, each name of the API reference exists and describes its parameters."""

import sys

from tests.harness import REPOSITORY, run


def test_docs_build_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    finished = run(command, cwd=REPOSITORY)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    reference = (tmp_path / "site" / "api" / "index.html").read_text()
    assert "gather_for_metrics" in reference and "bucket_cap_mb" in reference
