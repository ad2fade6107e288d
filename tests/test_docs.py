"""The docs build in both languages: links lead somewhere, the API's names and the files they name exist, nothing comes
from elsewhere, and each error that the plugin raises can be found by its words."""

import html
import json
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
    site = tmp_path / "site"
    reference = (site / "api" / "index.html").read_text()
    assert "dp.gather_for_metrics" in reference and "bucket_cap_mb" in reference
    for page in site.rglob("*.html"):
        assert not re.search(r'<(?:script|img)[^>]+src="?http|<link[^>]+rel="?stylesheet"?[^>]+http', page.read_text())

    texts, translated = texts_of_the_index(site), texts_of_the_index(site / "zh")
    assert not [page for page in (*texts, *translated) if page.startswith("zh/")]
    for words in ("belongs to a job that is still running", "starts the ranks of one machine", "holds one class only"):
        assert words in texts["messages/"] and words in translated["messages/"]
    assert "仍在运行的作业" in translated["messages/"]
    assert "数据并行" in translated[""]
    for folder, base in (("guide/data", "../.."), ("zh/guide/data", "../.."), ("zh", ".")):
        assert f'"base": "{base}"' in (site / folder / "index.html").read_text(), "where the page looks for its index"


def texts_of_the_index(site):
    """What search finds, by page."""
    texts = {}
    for entry in json.loads((site / "search" / "search_index.json").read_text())["docs"]:
        text = html.unescape(re.sub(r"<[^>]+>|\u200b", "", entry["title"] + "\n" + entry["text"]))
        page = entry["location"].split("#")[0]
        texts[page] = texts.get(page, "") + text
    return texts


@pytest.mark.parametrize("page", [*PAGES, REPOSITORY / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_files_that_a_page_names_exist(page):
    named = re.findall(r"`((?:[\w-]+/)+[\w.-]*)`", page.read_text(encoding="utf-8"))
    ours = [name for name in named if name.split("/")[0] in ROOMS + FOLDERS]
    roots = PACKAGE, REPOSITORY, REPOSITORY / "tests"
    missing = [name for name in ours if not any((root / name).exists() for root in roots)]
    assert not missing
