"""Messages in the user's language: English, or Chinese from a gettext catalogue.

A message is an English template with named fields, ``"{path} has no rows"``; the catalogue holds its translation. Which
messages there are, ``make catalogue`` reads from the source: those given to ``tr``, ``Message`` or
``DataParallelError``, and the help of commands and options.
"""

import gettext
import os
from functools import cache
from pathlib import Path
from typing import Any

VARIABLE = "MINDNLP_DP_LANG"
LANGUAGES = ("en", "zh")
CATALOGUES = Path(__file__).with_name("locale")
DOMAIN = "mindnlp_dp_plugin"


class Message(str):
    """A template that is translated where it is shown: as the first argument of ``tr``, or in one of its fields."""

    __slots__ = ()


def language() -> str:
    """The user's language: ``"en"`` or ``"zh"``.

    ``MINDNLP_DP_LANG`` counts first; then the locale, as GNU gettext reads it: ``LC_ALL``, ``LC_MESSAGES`` or ``LANG``,
    and before them ``LANGUAGE``, a list, unless the locale is C.
    """
    if (asked := os.environ.get(VARIABLE)) in LANGUAGES:
        return asked
    locale = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "C")
    listed = [] if locale in ("C", "POSIX") else os.environ.get("LANGUAGE", "").split(":")
    return next((name[:2] for name in [*listed, locale] if name[:2] in LANGUAGES), "en")


def tr(template: str, /, **fields: Any) -> str:
    """A message in the user's language.

    Args:
        template: The message in English, with ``{name}`` for each field. Without fields, braces stand for themselves.
        fields: What is filled in; a ``Message`` is translated, too.
    """
    if (code := language()) != "en":
        template = translated(template, code)
        fields = {name: tr(value) if isinstance(value, Message) else value for name, value in fields.items()}
    return template.format(**fields) if fields else str(template)


def translated(template: str, code: str) -> str:
    """A template in a language; itself if the catalogue does not have it."""
    if code == "en" or not template:  # gettext answers an empty text with the catalogue's header
        return str(template)
    return catalogue(code).gettext(template)


@cache
def catalogue(code: str) -> gettext.NullTranslations:
    """The translations into a language."""
    return gettext.translation(DOMAIN, CATALOGUES, [code])
