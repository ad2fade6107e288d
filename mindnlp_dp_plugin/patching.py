"""Replace attributes of modules and classes, and restore them."""

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
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

    def stand_in(self, owner: Any, stand_in: Callable, name: str | None = None) -> None:
        """Let ``stand_in`` be called in the place of ``owner``'s function of that name, which it is given first.

        Args:
            owner: A class or module.
            stand_in: What is called instead.
            name: The function's name, if it is not that of ``stand_in``.
        """
        name = name or stand_in.__name__
        self.replace(owner, name, _around(getattr(owner, name), stand_in))

    def stand_in_everywhere(self, functions: Iterable[Callable], stand_in: Callable) -> None:
        """Let ``stand_in`` be called in the place of functions, also in modules that have imported them by name.

        Args:
            functions: These. It is given the one that was called first.
            stand_in: What is called instead.
        """
        answers = {}
        for stock in functions:
            answer = _around(stock, stand_in)
            while stock:  # a module may have imported what this stands in for
                answers[stock] = answer
                stock = getattr(stock, "__wrapped__", None)
        self.replace_everywhere(answers)

    def replace_everywhere(self, answers: Mapping[Callable, Callable], except_in: str | None = None) -> None:
        """Replace functions and classes under every name that a module has for them.

        Args:
            answers: What to put in the place of what.
            except_in: The name of a module that keeps them.
        """
        by_id = {id(stock): answer for stock, answer in answers.items()}
        for module_name, module in list(sys.modules.items()):
            if module_name == except_in or not isinstance(module, ModuleType):
                continue
            held = object.__getattribute__(module, "__dict__")  # so that no lazy module is loaded
            for name, value in list(held.items()):
                if id(value) in by_id:
                    self.replace(module, name, by_id[id(value)])

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


def _around(stock, stand_in):
    @functools.wraps(stock)
    def method(*args, **kwargs):
        return stand_in(stock, *args, **kwargs)

    return method


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """A context in which ``owner.name`` is ``value``."""
    with Patches() as patches:
        patches.replace(owner, name, value)
        yield
