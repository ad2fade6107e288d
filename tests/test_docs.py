"""The docs build: each link leads somewhere, each name of the API reference exists, each file they name is there."""

import re
import sys

import pytest

from tests.docs_check import PAGES
from tests.harness import REPOSITORY, run

PACKAGE = REPOSITORY / "mindnlp_dp_plugin"
ROOMS = [path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()]
FOLDERS = [path.name for path in REPOSITORY.iterdir() if path.is_dir() and not path.name.startswith(".")]


def test_docs_build_without_a_warning(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"]
    finished = run(command, cwd=REPOSITORY)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    reference = (tmp_path / "site" / "api" / "index.html").read_text()
    assert "gather_for_metrics" in reference and "bucket_cap_mb" in reference


@pytest.mark.parametrize("page", [*PAGES, REPOSITORY / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    named = re.findall(r"`((?:[\w-]+/)+[\w.-]*)`", page.read_text(encoding="utf-8"))
    ours = [name for name in named if name.split("/")[0] in ROOMS + FOLDERS]
    missing = [name for name in ours if not (PACKAGE / name).exists() and not (REPOSITORY / name).exists()]
    assert not missing
