"""Reads the optimizer and the scheduler of a checkpoint, and runs no code from them.

MindNLP keeps them as pickles, in a zip archive. A pickle may name any function to be called while it is read, and
MindNLP's own ``load`` even evaluates names. Here those few are called that make numbers, arrays and tensors; and what
NumPy would take from a pickle without a look, the layout of a dtype and the bytes of an array, is checked.
"""

import pickle
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr
from mindnlp_dp_plugin.nested import map_leaves

BFLOAT16 = "bfloat16"  # MindSpore's class, which makes a number and runs nothing
NUMERIC = re.compile(r"[<>|=]?[biufc]\d{1,2}")
PLAIN = {("_codecs", "encode"), ("collections", "OrderedDict"), ("mindspore.common.tensor", "Tensor")}


class PlainDtype:
    """Stands where the pickle names ``numpy.dtype``, and takes numbers only: no objects, no structures."""

    def __init__(self, name, align=False, copy=False):
        is_bfloat16 = isinstance(name, type) and name.__name__ == BFLOAT16
        if not is_bfloat16 and not (isinstance(name, str) and NUMERIC.fullmatch(name)):
            raise _refusal(f"a dtype {name!r}")
        self.dtype = np.dtype(name)

    def __setstate__(self, state):
        """What the pickle says of a dtype beside its name: for numbers, the order of bytes."""
        _, order, *layout = state
        if self.dtype.kind == "V" and order == "<":  # bfloat16, which NumPy does not know
            return
        if order not in ("<", ">", "|", "=") or tuple(layout) != (None, None, None, -1, -1, 0):
            raise _refusal(tr("a dtype with {state!r}", state=state))
        # By its text it becomes NumPy's own native dtype, the only one that tensors of MindSpore 2.7 are made of.
        self.dtype = np.dtype(self.dtype.newbyteorder(order).str)


class PlainArray(np.ndarray):
    """Stands where the pickle names ``numpy.ndarray``."""

    def __setstate__(self, state):
        """Shape, dtype and bytes, in the form in which NumPy pickles them."""
        version, shape, plain, is_fortran, values = state
        if not (isinstance(plain, PlainDtype) and isinstance(values, bytes)):
            raise _refusal(tr("an array without numbers"))
        super().__setstate__((version, shape, plain.dtype, is_fortran, values))


def make_array(subtype, shape, letter):
    """Stands where the pickle names ``_reconstruct``: an empty array, which is about to get its state."""
    return np.ndarray.__new__(PlainArray, (0,), np.int8)


def make_scalar(plain, values):
    """Stands where the pickle names ``scalar``."""
    if not (isinstance(plain, PlainDtype) and isinstance(values, bytes)):
        raise _refusal(tr("a number without a dtype"))
    return np.frombuffer(values, plain.dtype, count=1)[0]


STAND_INS = {
    ("numpy", "dtype"): PlainDtype,
    ("numpy", "ndarray"): PlainArray,
    ("numpy.core.multiarray", "_reconstruct"): make_array,
    ("numpy.core.multiarray", "scalar"): make_scalar,
}


class SafeUnpickler(pickle.Unpickler):
    """Makes what is plain, and refuses the rest."""

    def find_class(self, module_name: str, name: str) -> Any:
        """What a pickle names."""
        if (module_name, name) in STAND_INS:
            return STAND_INS[module_name, name]
        if (module_name, name) in PLAIN or (name == BFLOAT16 and module_name.startswith("mindspore.")):
            return super().find_class(module_name, name)
        raise _refusal(tr("{name} to be called while it is read", name=f"{module_name}.{name}"))


def load(path: str) -> Any:
    """Stands in for MindNLP's function of this name where the Trainer calls it.

    Args:
        path: What MindNLP's ``save`` has written.

    Raises:
        DataParallelError: If it asks for anything but numbers, arrays and tensors.
    """
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        with archive.open(name) as pickled:
            return SafeUnpickler(pickled).load()


def load_later(path: str, later: Callable[[str, int, np.dtype, tuple], Any]) -> Any:
    """As ``load``, but of large tensors that were written by ``archive.write`` none is held in memory.

    Args:
        path: As for ``load``.
        later: Makes what stands for one, given the file, the place of its first byte, dtype and shape.
    """
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if name.endswith("data.pkl"))
        info = archive.getinfo(name)
        with Path(path).open("rb") as file:
            file.seek(info.header_offset + NAME_LENGTHS)
            begin = file.tell() + 4 + sum(np.frombuffer(file.read(4), "<u2").tolist())
        with archive.open(name) as pickled:
            found = _LaterUnpickler(_Noting(pickled, begin), path, later).load()
    return map_leaves(lambda leaf: leaf.value if isinstance(leaf, _Later) else leaf, found)


NAME_LENGTHS = 26  # where the header of a file in an archive tells how long its name, and what follows that, are


class _Noting:
    """A file that notes where the last large bytes were; the unpickler reads those alone into memory of its own."""

    def __init__(self, file, begin):
        self._file, self._begin = file, begin
        self.read, self.readline = file.read, file.readline
        self.place, self.size = begin, 0

    def readinto(self, memory):
        self.place, self.size = self._begin + self._file.tell(), len(memory)
        return self._file.readinto(memory)


class _Later:
    """Is made in the place of an array or a tensor; its ``value`` is that."""

    @classmethod
    def of(cls, kind, unpickler):
        """The class of those of a kind."""
        return type(kind.__name__, (cls,), {"_kind": kind, "_unpickler": unpickler})

    def __setstate__(self, state):
        if self._kind is PlainArray:
            self.value = make_array(None, None, None)
            self.value.__setstate__(state)
            *_, is_fortran, values = state
            file = self._unpickler.file
            if not is_fortran and 0 < len(values) == file.size:
                self.stored = self._unpickler.later(file.place, self.value.dtype, self.value.shape)
            return
        (array,) = state["value"]
        if stored := getattr(array, "stored", None):
            array.value, self.value = None, stored
        else:
            self.value = self._kind.__new__(self._kind)
            self.value.__setstate__({"value": (array.value,)})


class _LaterUnpickler(SafeUnpickler):
    def __init__(self, file, path, later):
        super().__init__(file)
        self.file = file
        self.later = lambda place, dtype, shape: later(path, place, dtype, shape)

    def find_class(self, module_name, name):
        found = super().find_class(module_name, name)
        if found is make_array:
            return lambda *_: _Later.of(PlainArray, self)()
        return _Later.of(found, self) if name == "Tensor" else found


def _refusal(what):
    return DataParallelError(
        "The checkpoint's optimizer or scheduler asks for {what}, which MindNLP's own never does. The plugin does "
        "not read it, as it could run any code. Use another checkpoint.",
        what=what,
    )
