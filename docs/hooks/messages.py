"""Fill the page of messages from the source: the errors of each room that a page asks for.

A line ``<!-- messages of config data -->`` becomes the list of errors in the rooms ``config`` and ``data``.
"""

import ast
import re
from pathlib import Path

from mkdocs.exceptions import PluginError

PACKAGE = Path(__file__).parents[2] / "mindnlp_dp_plugin"
PLACE = re.compile(r"<!-- messages of ([\w ]+) -->")
RAISING = ("DataParallelError", "UsageError", "_refuse", "_number", "_whole_number", "_path")
VALUE = "…"
END_OF_WHAT_IS_WRONG = re.compile(r"[:.;] (?=\S)")
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
    return PLACE.sub(lambda place: listed([text for room in place[1].split() for text in messages[room]]), markdown)


def messages_of_the_package() -> dict[str, list[str]]:
    """The texts of all errors by room, with ``…`` for what only a run knows."""
    messages = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        constants = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for call in filter(raises, ast.walk(tree)):
            texts = (re.sub(r"\s+", " ", as_text(argument, constants)).strip() for argument in call.args)
            if text := next(filter(HAS_WORDS.search, texts), None):
                messages.setdefault(file.relative_to(PACKAGE).parts[0].removesuffix(".py"), []).append(text)
    return messages


def raises(node: ast.AST) -> bool:
    """Whether a node makes an error with a text."""
    return (
        isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", None)) in RAISING
        and bool(node.args)
    )


def as_text(node: ast.expr, constants: dict[str, ast.expr]) -> str:
    """An expression as the text it makes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(as_text(value, constants) for value in node.values)
    if isinstance(node, ast.BinOp):
        return as_text(node.left, constants) + as_text(node.right, constants)
    if isinstance(node, ast.FormattedValue):
        return as_text(node.value, constants)
    if isinstance(node, ast.Name) and isinstance(constants.get(node.id), (ast.Constant, ast.JoinedStr)):
        return as_text(constants[node.id], constants)
    return VALUE


def listed(messages: list[str]) -> str:
    """Each message: what is wrong as a heading, which search finds by itself, and below it what to do."""
    lines = []
    for text in dict.fromkeys(messages):
        wrong, *hints = END_OF_WHAT_IS_WRONG.split(text.rstrip(".:"), maxsplit=1)
        fence = "``" if "`" in wrong else "`"
        lines += [f"#### {fence}{wrong}{fence}", *(MARKUP.sub(r"\\", hint) for hint in hints)]
    return "\n\n".join(lines)
