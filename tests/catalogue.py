"""The catalogue of messages: read them from the source, and bring the Chinese one up to date (``make catalogue``).

    python -m tests.catalogue

New messages come into the .po without a translation, and those that have gone leave it: translate, and run it again.
"""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import click
import jinja2
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from mindnlp_dp_plugin.cli.program import commands
from mindnlp_dp_plugin.language import CATALOGUES, DOMAIN, LANGUAGES, VARIABLE

PACKAGE = CATALOGUES.parent
CLICK = "click"
FINDINGS = ("ok", "warning", "failure")  # their second argument is a message, too: the way out
TAKING = ("tr", "Message", "DataParallelError", "remark", *FINDINGS)
TRANSLATED = [language for language in LANGUAGES if language != "en"]


def calls(taking: tuple[str, ...] = TAKING) -> Iterator[tuple[Path, ast.Call]]:
    """The calls in the package that take a message, with their files; those of the functions ``taking``."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in taking and node.args:
                yield file, node


def texts(node: ast.expr) -> list[str]:
    """The texts that an expression may be: one, or those of the branches of a choice."""
    if isinstance(node, ast.IfExp):
        return texts(node.body) + texts(node.orelse)
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def templates(call: ast.Call) -> list[str]:
    """The messages that a call may take."""
    name = getattr(call.func, "id", None)
    return [text for argument in call.args[: 2 if name in FINDINGS else 1] for text in texts(argument)]


def helps(command: click.Command) -> Iterator[str]:
    """The help of a command and of its options, and of the commands in it."""
    yield from (each.help for each in (command, *command.params) if getattr(each, "help", None))
    for each in getattr(command, "commands", {}).values():
        yield from helps(each)


def messages() -> dict[str, list[str]]:
    """Each message of the package and of its pages, with the files that say it."""
    found = {text: ["mindnlp_dp_plugin/cli"] for text in helps(commands)}
    for file, call in calls():
        for text in templates(call):
            found.setdefault(text, []).append(str(file.relative_to(PACKAGE.parent)))
    reader = jinja2.Environment(extensions=["jinja2.ext.i18n"])
    for page in sorted(PACKAGE.rglob("*.html")):
        for _, _, given in reader.extract_translations(page.read_text(encoding="utf-8")):
            text = given[0] if isinstance(given, tuple) else given  # the others are its fields
            if text:  # else a variable, which a Message is in
                found.setdefault(text, []).append(str(page.relative_to(PACKAGE.parent)))
    return found


def messages_of_click() -> set[str]:
    """What the installed version of click says itself."""
    found = {"required"}  # which it looks up as the value of a variable
    for module in (click.core, click.decorators, click.exceptions, click.formatting, click.parser, click.types):
        for node in ast.walk(ast.parse(Path(module.__file__).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in ("_", "ngettext"):
                found.update(text for argument in node.args for text in texts(argument))
    return found


def po_path(language: str) -> Path:
    """The file with the translations into a language; the compiled one lies beside it."""
    return CATALOGUES / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def read(language: str) -> Catalog:
    """The translations into a language."""
    with po_path(language).open("rb") as file:
        return read_po(file, locale=language)


def update(language: str) -> list[str]:
    """Bring a catalogue up to date, and compile it. Returns the messages without a translation."""
    known = read(language) if po_path(language).exists() else Catalog()
    catalogue = Catalog(language, DOMAIN, f"# {DOMAIN} in another language: make catalogue brings it up to date.")
    catalogue.fuzzy = False
    catalogue.creation_date = catalogue.revision_date = known.creation_date
    clicks = {
        message.id for message in known if (CLICK, None) in message.locations and message.string
    }  # of other versions, too
    said = {**{text: [CLICK] for text in clicks | messages_of_click()}, **messages()}
    for text, files in sorted(said.items(), key=lambda item: (item[1], item[0] if item[1] == [CLICK] else "")):
        translation = known[text].string if text in known else ""
        catalogue.add(text, translation, locations=[(file, None) for file in dict.fromkeys(files)])
    po_path(language).parent.mkdir(parents=True, exist_ok=True)
    with po_path(language).open("wb") as file:
        write_po(file, catalogue, width=120, omit_header=False, include_lineno=False)
    with po_path(language).with_suffix(".mo").open("wb") as file:
        write_mo(file, catalogue)
    return [message.id for message in catalogue if message.id and not message.string]


if __name__ == "__main__":
    os.environ[VARIABLE] = "en"
    for language in TRANSLATED:
        for message in update(language):
            print(f"{language}: not translated: {message}")
