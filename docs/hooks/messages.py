"""Fill the page of messages from the source: the errors of each room that a page asks for.

A line ``<!-- messages of config data -->`` becomes the list of errors in the rooms ``config`` and ``data``.
"""

import ast
import gettext
import re
from pathlib import Path
from string import Formatter

from mkdocs.exceptions import PluginError

PACKAGE = Path(__file__).parents[2] / "mindnlp_dp_plugin"
PLACE = re.compile(r"<!-- messages of ([\w ]+) -->")
RAISING = ("DataParallelError", "UsageError")
VALUE = "…"
END_OF_WHAT_IS_WRONG = re.compile(r"[:.;] (?=\S)(?![^(]*\))|[：。；](?=\S)(?![^（]*）)")
NO_WORDS = re.compile(r"--[\w-]+|\w+\([^)]*\)|\w+=\S+|…")
HAS_WORDS = re.compile("[a-z]{2}")
MARKUP = re.compile(r"(?=[_*<\[])")


def on_page_markdown(markdown, page, **_):
    """Replace each place on a page by its list; a page of messages has to name all rooms."""
    if not PLACE.search(markdown):
        return markdown
    messages = messages_of_the_package()
    asked = [room for rooms in PLACE.findall(markdown) for room in rooms.split()]
    if missing := set(messages) - set(asked):
        raise PluginError(f"{page.file.src_uri} lacks the messages of {', '.join(sorted(missing))}")
    translate = gettext.translation(PACKAGE.name, PACKAGE / "locale", [language_of(page)], fallback=True).gettext

    def fill(place):
        return listed([text for room in place[1].split() for text in messages[room]], translate)

    return PLACE.sub(fill, markdown)


def language_of(page) -> str:
    """``zh`` for a page ``name.zh.md``."""
    return (Path(page.file.src_uri).suffixes[-2:-1] or [".en"])[0].removeprefix(".")


def messages_of_the_package() -> dict[str, list[str]]:
    """The templates of all errors by room, as the catalogue has them."""
    messages = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        room = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
        names = (*RAISING, "Message") if room == "config" else RAISING  # templates of settings are raised by others
        calls = [node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if calls_one_of(names, node)]
        for call in calls:
            messages.setdefault(room, []).extend(texts(call.args[0]))
    worded = {room: [text for text in found if HAS_WORDS.search(shown(text))] for room, found in messages.items()}
    return {room: found for room, found in worded.items() if found}


def calls_one_of(names: tuple[str, ...], node: ast.AST) -> bool:
    """Whether a node makes an error, or a template for one, with a text."""
    if not (isinstance(node, ast.Call) and node.args):
        return False
    return getattr(node.func, "id", getattr(node.func, "attr", None)) in names


def texts(node: ast.expr) -> list[str]:
    """The texts that an expression may be."""
    if isinstance(node, ast.Call) and node.args:
        return texts(node.args[0])
    if isinstance(node, ast.IfExp):
        return texts(node.body) + texts(node.orelse)
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def shown(template: str) -> str:
    """A template with ``…`` for what only a run knows, on one line."""
    if "{}" in template:  # no field: braces that stand for themselves
        return template
    parts = (text + (VALUE if name is not None else "") for text, name, _, _ in Formatter().parse(template))
    return re.sub(r"\s+", " ", "".join(parts)).strip()


def listed(messages: list[str], translate) -> str:
    """Each message: what is wrong as a heading, in both languages, which search finds by itself; and what to do."""
    lines = []
    for template in dict.fromkeys(messages):
        wrong, hint = wrong_and_hint(shown(translate(template)).rstrip(".:。："))
        english, _ = wrong_and_hint(shown(template).rstrip(".:"))
        lines.append("#### " + " <br> ".join(as_code(text) for text in dict.fromkeys((wrong, english))))
        if hint:
            lines.append(MARKUP.sub(r"\\", hint))
    return "\n\n".join(lines)


def wrong_and_hint(message: str) -> tuple[str, str]:
    """A message up to the first end of a sentence or clause that says something; and the rest."""
    for end in END_OF_WHAT_IS_WRONG.finditer(message):
        if re.search(r"[^\W\d_]", NO_WORDS.sub("", message[: end.start()])):
            return message[: end.start()], message[end.end() :]
    return message, ""


def as_code(text: str) -> str:
    """A text in a monospaced font."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"
