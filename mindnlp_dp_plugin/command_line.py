"""Click in the user's language: help is looked up when it is shown, and so are click's own words.

Click has no hook for either. Without ``speak`` a Chinese user reads click's English in between ("Usage", "Invalid
value for"), and Chinese help is broken at columns that count a letter of two columns as one.
"""

import gettext
import inspect
import math
import re
import sys
import unicodedata
from functools import partial

import click

from mindnlp_dp_plugin.language import Message, language, tr

NAMES = {
    click.types.IntParamType: Message("integer"),
    click.types.FloatParamType: Message("float"),
    click.IntRange: Message("integer range"),
    click.FloatRange: Message("float range"),
    click.Path: "path",
}
"""Types whose errors show a name that is not looked up, or was before the language was known."""

BEGINNING, ENDING, CHINESE = "（“《", "，。；：、！？）》”", r"\u4e00-\u9fff"
# A Chinese word before a colon; a Chinese character or another word, with the signs that must not be parted from it.
PIECE = re.compile(
    rf"[{CHINESE}]{{2}}：|[{BEGINNING}]*(?:[{CHINESE}]|[^\s{CHINESE}{BEGINNING}{ENDING}]+)[{ENDING}]*|\S|\s+"
)


class _Translated:
    """Something of click's that has a ``help``."""

    @property
    def help(self) -> str | None:
        """The help in the user's language."""
        return self._help and tr(self._help)

    @help.setter
    def help(self, text):
        paragraphs = inspect.cleandoc(text or "").split("\n\n")
        self._help = text and "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


class Option(_Translated, click.Option):
    """An option."""

    def type_cast_value(self, ctx, value):
        """The value; no range of click's refuses NaN, and no number here may be infinite."""
        cast = super().type_cast_value(ctx, value)
        for number in cast if isinstance(cast, tuple) else (cast,):
            if isinstance(number, float) and not math.isfinite(number):
                raise click.BadParameter(tr("{number} is not a finite number.", number=number), ctx, self)
        return cast


class Command(_Translated, click.Command):
    """A command."""

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first sentence, shortened to ``limit`` letters if words are set apart."""
        if language() == "en":
            return super().get_short_help_str(limit)
        return (self.help or "").split("。")[0]

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """``--help``, which click makes before the language is known."""
        if made := super().get_help_option(ctx):
            made.help = tr("Show this message and exit.")
        return made


class Group(Command, click.Group):
    """A group of commands."""

    command_class = Command


option = partial(click.option, cls=Option)


def speak() -> None:
    """Let click find its own words in the plugin's catalogue.

    Its modules look words up by a ``gettext.gettext`` of their own import, which goes by LANGUAGE: if that were set
    here, ranks would inherit it. Help is wrapped by the width of letters; Chinese has no blanks between words.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("click.") and vars(module).get("_") is gettext.gettext:
            module._ = tr
            module.ngettext = lambda one, several, num: tr(one if num == 1 else several)
    for kind, name in NAMES.items():
        kind.name = property(partial(_name_of, name), lambda self, name: vars(self).update(name=name))
    if click.formatting.wrap_text is not _wrap_text:
        click.formatting.wrap_text, click.formatting.term_len = _wrap_text, columns


def _name_of(name, kind):
    return tr(vars(kind).get("name", name))


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _wrap_text(text, width=78, initial_indent="", subsequent_indent="", preserve_paragraphs=False):
    if language() == "en":
        return stock_wrap_text(text, width, initial_indent, subsequent_indent, preserve_paragraphs)
    wrapped = []
    for paragraph in text.split("\n\n"):
        lines, line = [], initial_indent
        for piece in PIECE.findall(" ".join(paragraph.split())):
            if columns(line + piece.rstrip()) > width and line.strip():
                lines.append(line.rstrip())
                line, piece = subsequent_indent, piece.lstrip()
            line += piece
        wrapped.append("\n".join([*lines, line.rstrip()]))
    return "\n\n".join(wrapped)


stock_wrap_text = click.formatting.wrap_text
