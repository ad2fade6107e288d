"""The catalogue of messages is complete, and what is said can be looked up in it."""

import ast
import gettext
import re
from string import Formatter

import pytest

from mindnlp_dp_plugin.language import CATALOGUES, DOMAIN
from tests import catalogue

SAYING = (
    *("print", "say", "tell", "tell_note", "click.echo", "console.print", "dp.print_rank_0", "refuse"),
    *("logger.info", "logger.warning", "logger.error", "click.UsageError", "click.BadParameter", "self.fail"),
)
WORDS = re.compile("[a-z]{2,} [a-z]{2,}")


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


def test_nothing_is_said_that_is_not_looked_up():
    said = [
        f"{file}:{call.lineno}"
        for file, call in catalogue.calls(SAYING)
        for node in ast.walk(call.args[0])
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and WORDS.search(node.value)
        if not any(node in ast.walk(inner) for inner in ast.walk(call.args[0]) if is_looked_up(inner))
    ]
    assert not said


def is_looked_up(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) in catalogue.TAKING


def test_each_message_gets_its_fields():
    for file, call in catalogue.calls():
        templates = catalogue.templates(call)
        given = {keyword.arg for keyword in call.keywords}
        if templates and given and None not in given:
            assert set.union(*map(fields, templates)) == given, f"{file}:{call.lineno}"
        elif templates and not given and call.func.id != "Message":
            assert not any(map(fields, templates)) or "{}" in templates[0], f"{file}:{call.lineno}"


@pytest.mark.parametrize("language", catalogue.TRANSLATED)
def test_the_catalogue_is_complete(language):
    """``make catalogue`` makes it so, but for the translations themselves."""
    found = {message.id: message for message in catalogue.read(language) if message.id}
    assert not [text for text in catalogue.messages() if text not in found or not found[text].string]
    assert not [text for text, message in found.items() if message.fuzzy]
    assert not catalogue.read(language).obsolete
    gone = set(found) - set(catalogue.messages()) - {text for text, message in found.items() if is_clicks(message)}
    assert not gone


@pytest.mark.parametrize("language", catalogue.TRANSLATED)
def test_a_translation_has_the_same_fields(language):
    for message in catalogue.read(language):
        if message.id and "{" in message.id and "{}" not in message.id:
            assert parts(message.string) == parts(message.id), message.id


@pytest.mark.parametrize("language", catalogue.TRANSLATED)
def test_the_compiled_catalogue_is_that_of_the_source(language):
    compiled = gettext.translation(DOMAIN, CATALOGUES, [language])
    for message in catalogue.read(language):
        if message.id and message.string:
            assert compiled.gettext(message.id) == message.string


def is_clicks(message) -> bool:
    return (catalogue.CLICK, None) in message.locations


def parts(template: str) -> set[tuple]:
    """The fields of a template as they are filled in, with conversions and formats."""
    return {(name, form, conversion) for _, name, form, conversion in Formatter().parse(template) if name is not None}
