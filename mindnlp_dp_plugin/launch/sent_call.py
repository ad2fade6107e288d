"""A call that is sent to the ranks: a function of a notebook by value, with what it uses, and its arguments."""

import linecache
import marshal
import os
import pickle
import sys
from collections import ChainMap
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import CodeType
from typing import Any

from mindnlp_dp_plugin.errors import DataParallelError

CALL = "call.pkl"
VALUE = "value.pkl"


def send(function: Callable, args: tuple, folder: Path) -> None:
    """Write a call for the ranks, with ``sys.path`` for modules beside the notebook, and the cells for tracebacks.

    Raises:
        DataParallelError: If something cannot be pickled.
    """
    seen = []
    try:
        pickled = _dumps((function, args), seen)
    except Exception as error:
        name, value = _culprit(function, args, seen)
        raise DataParallelError(
            "{name!r}, a {type}, cannot be sent to the ranks ({error}): build it, or what it holds, inside the "
            "function.",
            name=name,
            type=type(value).__name__,
            error=_in_a_line(error),
        ) from None
    cells = {name: lines for name, lines in linecache.cache.items() if len(lines) == 4 and not os.path.exists(name)}
    (folder / CALL).write_bytes(pickle.dumps((sys.path, cells, pickled)))


def receive(folder: Path) -> tuple[Callable, tuple]:
    """The function and its arguments, in a rank."""
    sys.path[:], cells, pickled = pickle.loads((folder / CALL).read_bytes())
    linecache.cache.update(cells)
    return pickle.loads(pickled)


def send_back(value: Any, folder: Path) -> None:
    """Write what the function returned, for the kernel.

    Raises:
        DataParallelError: If it cannot be pickled.
    """
    try:
        pickled = _dumps(value, [])
    except Exception as error:
        raise DataParallelError(
            "what the function returned, a {type}, cannot be sent back to the notebook ({error}): return numbers, "
            "arrays, or the path of what was saved.",
            type=type(value).__name__,
            error=_in_a_line(error),
        ) from None
    (folder / VALUE).write_bytes(pickled)


def _dumps(value, seen):
    """Pickle by cloudpickle, but keep where code comes from: tracebacks show it. What it comes to joins ``seen``."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):
        dispatch_table = ChainMap({CodeType: _reduce_code}, cloudpickle.Pickler.dispatch_table)

        def reducer_override(self, value):
            seen.append(value)
            return super().reducer_override(value)

    pickled = BytesIO()
    Pickler(pickled).dump(value)
    return pickled.getvalue()


def _reduce_code(code):
    return marshal.loads, (marshal.dumps(code),)


def _culprit(function, args, seen) -> tuple[str, Any]:
    """The last argument or variable of the notebook that was come to and cannot be pickled; else the function."""
    names = {id(value): name for name, value in getattr(function, "__globals__", {}).items()}
    names |= {id(value): f"args[{number}]" for number, value in enumerate(args)}
    for value in reversed(seen):
        if id(value) in names:
            try:
                _dumps(value, [])
            except Exception:
                return names[id(value)], value
    return getattr(function, "__qualname__", type(function).__name__), function


def _in_a_line(error):
    return f"{type(error).__name__}: {error}".split("\n")[0]
