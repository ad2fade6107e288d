"""docs/settings.md has each field of TrainingArguments once, and tells which of them MindNLP reads."""

import mindnlp_dp_plugin  # noqa: F401  # isort: skip

import re
from dataclasses import fields
from pathlib import Path

import mindnlp.engine
import pytest
from mindnlp.engine import TrainingArguments

from tests.harness import REPOSITORY

PAGES = [REPOSITORY / "docs" / name for name in ("settings.md", "settings.zh.md")]
BEGIN = "{ #trainingarguments }"
UNREAD = re.compile(r"^### .*(does not read|不读取)")
# The plugin reads them in MindNLP's place; or properties of TrainingArguments do, which the Trainer asks for.
BY_THE_PLUGIN = {"group_by_length", "length_column_name", "fp16", "bf16"}
BY_PROPERTIES = {
    "per_device_eval_batch_size", "warmup_ratio", "warmup_steps", "log_level", "log_level_replica", "log_on_each_node",
    "logging_dir", "run_name", "save_on_each_node",
}  # fmt: skip


def rows(page):
    """The fields of each row, and whether it is of those that nobody reads."""
    is_unread = False
    _, _, arguments = page.read_text(encoding="utf-8").partition(BEGIN)
    for line in arguments.splitlines():
        if line.startswith("### "):
            is_unread = bool(UNREAD.match(line))
        elif line.startswith("| `"):
            for field in re.findall("`([^`]+)`", line.split("|")[1]):
                yield field, is_unread


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_field_is_there_once(page):
    assert sorted(field for field, _ in rows(page)) == sorted(field.name for field in fields(TrainingArguments))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_not_read_is_not_read(page):
    engine = Path(mindnlp.engine.__file__).parent
    source = "\n".join((engine / name).read_text() for name in ("trainer/base.py", "callbacks.py"))
    for field, is_unread in rows(page):
        is_read = re.search(rf"\bargs\.{field}\b", source) or field in BY_THE_PLUGIN | BY_PROPERTIES
        assert bool(is_read) != is_unread, field
