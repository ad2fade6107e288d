"""Reads the optimizer and the scheduler of a checkpoint, and runs no code from them.

MindNLP keeps them as pickles, in a zip archive. A pickle may name any function to be called while it is read, and
MindNLP's own ``load`` even evaluates names. Here those few are called that make numbers, arrays and tensors; and what
NumPy would take from a pickle without a look, the layout of a dtype and the bytes of an array, is checked.
"""

import pickle
import re
import zipfile
from typing import Any

import numpy as np

from mindnlp_dp_plugin.errors import DataParallelError
from mindnlp_dp_plugin.language import tr

NUMERIC = re.compile(r"[<>|=]?[biufc]\d{1,2}")
PLAIN = {("_codecs", "encode"), ("collections", "OrderedDict"), ("mindspore.common.tensor", "Tensor")}


class PlainDtype:
    """Stands where the pickle names ``numpy.dtype``, and takes numbers only: no objects, no structures."""

    def __init__(self, name, align=False, copy=False):
        if not (isinstance(name, str) and NUMERIC.fullmatch(name)):
            raise _refusal(f"a dtype {name!r}")
        self.dtype = np.dtype(name)

    def __setstate__(self, state):
        """What the pickle says of a dtype beside its name: for numbers, the order of bytes."""
        _, order, *layout = state
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
        if (module_name, name) in PLAIN:
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


def _refusal(what):
    return DataParallelError(
        "The checkpoint's optimizer or scheduler asks for {what}, which MindNLP's own never does. The plugin does "
        "not read it, as it could run any code. Use another checkpoint.",
        what=what,
    )
