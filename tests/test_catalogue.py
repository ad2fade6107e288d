"""The catalogue of messages is complete, and what is said can be looked up in it."""

import ast
from string import Formatter

from tests import catalogue


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name}


def test_no_message_is_put_together_before_it_is_looked_up():
    assembled = [
        f"{file}:{call.lineno}"
        for file, call in catalogue.calls()
        for node in ast.walk(call.args[0])
        if isinstance(node, (ast.JoinedStr, ast.BinOp))
    ]
    assert not assembled


def test_each_message_gets_its_fields():
    for file, call in catalogue.calls():
        templates = catalogue.texts(call.args[0])
        given = {keyword.arg for keyword in call.keywords}
        if templates and given and None not in given:
            assert set.union(*map(fields, templates)) == given, f"{file}:{call.lineno}"
        elif templates and not given and call.func.id != "Message":
            assert not any(map(fields, templates)) or "{}" in templates[0], f"{file}:{call.lineno}"
