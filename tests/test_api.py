"""Each public name is on docs/api.md, also in the table of other libraries' names, and its docstring shows its use."""

import mindnlp_dp_plugin as dp  # isort: skip

import ast
import inspect
import re
from doctest import DocTestParser

import pytest

from tests.harness import REPOSITORY

NAMES = [name for name in dp.__all__ if name != "__version__"]


@pytest.mark.parametrize("page", ["api.md", "api.zh.md"])
def test_the_page_has_each_name(page):
    text = (REPOSITORY / "docs" / page).read_text(encoding="utf-8")
    table = text.partition("{ #names }")[2].partition("\n## ")[0]
    assert not [name for name in NAMES if f"heading: dp.{name}\n" not in text]
    assert not [name for name in NAMES if not re.search(rf"`[^`]*\bdp\.{name}\b[^`]*`", table)]


@pytest.mark.parametrize("name", NAMES)
def test_each_name_has_an_example_that_is_python(name):
    examples = DocTestParser().get_examples(inspect.getdoc(getattr(dp, name)))
    trees = [ast.parse(example.source) for example in examples]
    used = {
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "dp"
    }
    assert name in used and used <= set(dp.__all__)
