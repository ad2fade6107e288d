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
        for call in filter(raises, ast.walk(ast.parse(file.read_text(encoding="utf-8")))):
            messages.setdefault(room, []).extend(texts(call.args[0]))
    return {room: found for room, of in messages.items() if (found := list(filter(HAS_WORDS.search, of)))}


def raises(node: ast.AST) -> bool:
    """Whether a node makes an error with a text, or a template for one: what has fields and is no part of another."""
    if not (isinstance(node, ast.Call) and node.args):
        return False
    name = getattr(node.func, "id", getattr(node.func, "attr", None))
    return name in RAISING or (name == "Message" and any("{" in text for text in texts(node.args[0])))


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
    """Each message: what is wrong as a heading, which search finds by itself; below it the English, and what to do."""
    lines = []
    for template in dict.fromkeys(messages):
        wrong, *hints = END_OF_WHAT_IS_WRONG.split(shown(translate(template)).rstrip(".:。："), maxsplit=1)
        english = END_OF_WHAT_IS_WRONG.split(shown(template).rstrip(".:"), maxsplit=1)[0]
        lines.append(f"#### {as_code(wrong)}")
        if english != wrong:
            lines.append(as_code(english))
        lines += [MARKUP.sub(r"\\", hint) for hint in hints]
    return "\n\n".join(lines)


def as_code(text: str) -> str:
    """A text in a monospaced font."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}"
