"""Replace attributes of modules and classes, and restore them."""

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_ABSENT = object()


class Patches:
    """Attributes that were replaced and variables that were removed, put back by ``undo``, last first.

    As a context manager it puts them back at the end of the block.
    What MindNLP's own faults need stays, and has a name: ``compat/patch.py``.
    """

    def __init__(self):
        self._undo = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.undo()

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set ``owner.name``; only what ``owner`` itself held (not what it inherited) will be put back."""
        found = vars(owner).get(name, _ABSENT)
        self._undo.append(lambda: delattr(owner, name) if found is _ABSENT else setattr(owner, name, found))
        setattr(owner, name, value)

    def stand_in(self, owner: Any, stand_in: Callable, name: str | None = None, everywhere: bool = False) -> None:
        """Let ``stand_in`` be called in the place of ``owner``'s function of that name, which it is given first.

        Args:
            owner: A class or module.
            stand_in: What is called instead.
            name: The function's name, if it is not that of ``stand_in``.
            everywhere: Whether it is replaced in each module that has imported it by name, too.
        """
        name = name or stand_in.__name__
        stock = getattr(owner, name)
        places = [(owner, name), *(_places_of(stock) if everywhere else ())]

        @functools.wraps(stock)
        def method(*args, **kwargs):
            return stand_in(stock, *args, **kwargs)

        for owner, name in places:
            self.replace(owner, name, method)

    def on_undo(self, function: Callable[[], object]) -> None:
        """Have ``function`` called when everything is put back."""
        self._undo.append(function)

    def remove_variable(self, name: str) -> None:
        """Take ``name`` out of the environment."""
        if name in os.environ:
            found = os.environ.pop(name)
            self._undo.append(lambda: os.environ.setdefault(name, found))

    def undo(self) -> None:
        """Leave every owner as it was found."""
        while self._undo:
            self._undo.pop()()


def _places_of(function):
    """Where modules hold a function, or one that it stands in for."""
    known = [function]
    while function := getattr(function, "__wrapped__", None):
        known.append(function)
    return [
        (module, name)
        for module in list(sys.modules.values())
        for name, value in list(getattr(module, "__dict__", {}).items())
        if any(value is each for each in known)
    ]


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """A context in which ``owner.name`` is ``value``."""
    with Patches() as patches:
        patches.replace(owner, name, value)
        yield
