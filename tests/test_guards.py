"""CONTRIBUTING's table of what guards which code is whole; records name no machine, notices what is used."""

import ast
import configparser
import dataclasses
import json
import re
import shlex

from benchmarks.planted_faults import FAULTS
from mindnlp_dp_plugin.launch.options import RunOptions
from tests.harness import REPOSITORY

PACKAGE, TESTS = REPOSITORY / "mindnlp_dp_plugin", REPOSITORY / "tests"
TITLE = "| code | without ranks | with ranks |"


def rows():
    """Paths of code and of tests, of each row."""
    _, _, table = (REPOSITORY / "CONTRIBUTING.md").read_text().partition(TITLE)
    for line in table.strip().partition("\n\n")[0].splitlines()[1:]:
        code, *tests = (re.findall("`([^`]+)`", cell) for cell in line.strip("|").split("|"))
        yield [PACKAGE / name for name in code], [TESTS / name for of_kind in tests for name in of_kind]


def test_every_module_has_its_tests():
    of_code = [code for code, tests in rows() if tests]
    named = [path for code, tests in rows() for path in (*code, *tests)]
    assert not [str(path) for path in named if not path.exists()]
    guarded = {path for code in of_code for path in code}
    assert not [str(module) for module in PACKAGE.rglob("*.py") if guarded.isdisjoint({module, *module.parents})]


def test_commands_of_records_name_no_place_of_a_machine():
    records = (REPOSITORY / "benchmarks" / "results").glob("*.json")
    commands = [json.loads(record.read_text()).get("command", "") for record in records]
    assert len(commands) > 20
    assert not [command for command in commands if any(word.startswith("/") for word in shlex.split(command))]


def test_each_package_that_users_install_has_its_notice():
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(REPOSITORY / "setup.cfg")
    for_development = {"docs", "dev"}
    extras = [names for extra, names in settings["options.extras_require"].items() if extra not in for_development]
    lines = "\n".join([settings["options"]["install_requires"], *extras]).split()
    needed = {re.match(r"[\w-]+", line)[0].lower() for line in lines if not line.startswith("%")}
    table = (REPOSITORY / "THIRD_PARTY_NOTICES.md").read_text().lower()
    noticed = {name for row in re.findall(r"^\| ([^|]+) \|", table, re.M) for name in re.findall(r"[\w-]+", row)}
    assert len(needed) > 25 and not needed - noticed


def test_what_make_planted_replaces_is_there():
    assert not [(module, was) for module, was, *_ in FAULTS if (PACKAGE / module).read_text().count(was) != 1]


def test_each_option_of_run_is_in_its_page_in_both_languages():
    names = [field.metadata["name"] for field in dataclasses.fields(RunOptions) if field.metadata]
    for page in ("run.md", "run.zh.md"):
        text = (REPOSITORY / "docs" / page).read_text()
        assert len(names) > 4 and not [name for name in names if f"| `{name}" not in text]


def test_each_door_is_among_those_that_never_import_each_other():
    settings = configparser.ConfigParser()
    settings.read(REPOSITORY / "setup.cfg")
    listed = set(settings["importlinter:contract:doors"]["modules"].split())
    rooms = {path.parent.name: ast.parse(path.read_text()) for path in (PACKAGE / "trainers").glob("*/__init__.py")}
    installs = {
        f"mindnlp_dp_plugin.trainers.{name}"
        for name, tree in rooms.items()
        if any(isinstance(node, ast.FunctionDef) and node.name in ("hook", "install") for node in tree.body)
    }
    assert installs == listed
