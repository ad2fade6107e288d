"""A call that is sent to the ranks: a function of a notebook by value, with what it uses, and its arguments."""

import dis
import inspect
import linecache
import marshal
import os
import pickle
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from mindnlp_dp_plugin.errors import DataParallelError

CALL = "call.pkl"
VALUE = "value.pkl"


@dataclass(frozen=True)
class SentCall:
    """A call, and where its code comes from.

    Attributes:
        pickled: The function and its arguments, by cloudpickle.
        path: ``sys.path`` of the kernel, for modules beside the notebook.
        sources: The cells, as ``linecache`` has them, for tracebacks.
    """

    pickled: bytes
    path: list[str]
    sources: dict[str, tuple]

    @classmethod
    def of(cls, function: Callable, args: tuple) -> "SentCall":
        """Pickle a call.

        Raises:
            DataParallelError: If something cannot be pickled, or cloudpickle is not installed.
        """
        try:
            pickled = _dumps((function, args))
        except DataParallelError:
            raise
        except Exception as error:
            raise _cannot_be_sent(function, args, error) from None
        sources = {
            name: lines for name, lines in linecache.cache.items() if len(lines) == 4 and not os.path.exists(name)
        }
        return cls(pickled, sys.path, sources)

    def save(self, folder: Path) -> None:
        """Write it for the ranks."""
        (folder / CALL).write_bytes(pickle.dumps(self))

    @classmethod
    def load(cls, folder: Path) -> "SentCall":
        """Read what ``save`` wrote."""
        return pickle.loads((folder / CALL).read_bytes())

    def restore(self) -> tuple[Callable, tuple]:
        """The function and its arguments, in a rank."""
        sys.path[:] = self.path
        linecache.cache.update(self.sources)
        return pickle.loads(self.pickled)


def send_back(value: Any, folder: Path) -> None:
    """Write what the function returned, for the kernel.

    Raises:
        DataParallelError: If it cannot be pickled.
    """
    try:
        pickled = _dumps(value)
    except Exception as error:
        raise DataParallelError(
            "what the function returned, a {type}, cannot be sent back to the notebook ({error}): return numbers, "
            "arrays, or the path of what was saved.",
            type=type(value).__name__,
            error=_in_a_line(error),
        ) from None
    (folder / VALUE).write_bytes(pickled)


def _dumps(value):
    """Pickle by cloudpickle, but keep where code comes from: tracebacks show it."""
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise DataParallelError(
            "dp.notebook_launcher needs cloudpickle, which is not installed: pip install 'mindnlp-dp-plugin[notebook]'."
        ) from None

    class Pickler(cloudpickle.Pickler):
        dispatch_table = ChainMap({CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table)

    pickled = BytesIO()
    Pickler(pickled).dump(value)
    return pickled.getvalue()


def _reduce_code(code):
    return marshal.loads, (marshal.dumps(code),)


class Culprit(NamedTuple):
    """A variable that cannot be pickled, and the function that uses it."""

    name: str
    user: str
    value: Any


def _cannot_be_sent(function, args, error):
    called = getattr(function, "__qualname__", type(function).__name__)
    for number, value in enumerate(args, 1):
        if why := _why_not(value):
            return DataParallelError(
                "argument {number} of {function}, a {type}, cannot be sent to the ranks ({error}): build it inside the "
                "function.",
                number=number,
                function=called,
                type=type(value).__name__,
                error=why,
            )
    culprit = _find_culprit(function, set())
    if culprit is None:
        return DataParallelError(
            "{function}, a {type}, cannot be sent to the ranks ({error}): give a function that builds what it needs.",
            function=called,
            type=type(function).__name__,
            error=_in_a_line(error),
        )
    return DataParallelError(
        "{name!r}, a {type} that {function} uses, cannot be sent to the ranks ({error}): build it inside the function.",
        name=culprit.name,
        type=type(culprit.value).__name__,
        function=culprit.user,
        error=_why_not(culprit.value),
    )


def _find_culprit(user, seen) -> Culprit | None:
    """The variable that a function uses, itself or through others, which is the reason."""
    seen.add(id(user))
    for name, value in _uses(user):
        if id(value) not in seen and _why_not(value):
            return _find_culprit(value, seen) or Culprit(name, getattr(user, "__qualname__", repr(user)), value)
    return None


def _uses(user: Any) -> Iterator[tuple[str, Any]]:
    """What a function, or a method of a class, uses from outside, by its name there."""
    if inspect.isclass(user):
        yield from ((name, value) for name, value in vars(user).items() if name not in ("__dict__", "__weakref__"))
    elif inspect.isfunction(user):
        yield from ((name, user.__globals__[name]) for name in _global_names(user.__code__) if name in user.__globals__)
        for name, cell in zip(user.__code__.co_freevars, user.__closure__ or ()):
            with suppress(ValueError):  # not yet set
                yield name, cell.cell_contents
        for name, parameter in inspect.signature(user, follow_wrapped=False).parameters.items():
            if parameter.default is not parameter.empty:
                yield name, parameter.default


def _global_names(code: CodeType) -> Iterator[str]:
    """The global names that code reads, with those of the functions in it."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


def _why_not(value: Any) -> str:
    """Why a value cannot be pickled; empty if it can be."""
    try:
        _dumps(value)
    except Exception as error:
        return _in_a_line(error)
    return ""


def _in_a_line(error):
    return f"{type(error).__name__}: {error}".split("\n")[0]
