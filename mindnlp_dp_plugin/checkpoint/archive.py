"""The archives in which MindNLP keeps pickled tensors, written tensor by tensor."""

import pickle
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

PROTOCOL = 5  # of pickle: its bytes come from where they are; MindNLP's 2 spells them as text, five times as slow
RECORD = "archive/data.pkl"


def write(obj: Any, path: str, reduce: Callable[[Any], Any] = lambda _: NotImplemented) -> None:
    """Write what ``mindnlp.core.serialization.load`` reads.

    MindNLP's ``save`` holds the pickle of all tensors in memory, twice. Here each goes into the file by itself, and of
    none is there a copy.

    Args:
        obj: No object may contain itself.
        path: The file.
        reduce: As ``pickle.Pickler.reducer_override``.
    """

    class Pickler(pickle.Pickler):
        def reducer_override(self, obj):
            return _reduce_array(obj) if type(obj) is np.ndarray and not obj.dtype.hasobject else reduce(obj)

    with zipfile.ZipFile(path, "w") as archive, archive.open(RECORD, "w", force_zip64=True) as record:
        pickler = Pickler(record, PROTOCOL)
        pickler.fast = True  # no memo, which would keep all that was pickled
        pickler.dump(obj)


def _reduce_array(array):
    """As NumPy does for protocol 4, in which it copies them, but for the bytes."""
    make, arguments, (version, _, dtype, is_fortran, _) = np.empty(0, array.dtype).__reduce__()
    values = np.ascontiguousarray(array).view(np.uint8)
    values.flags.writeable = False  # so that it is written as bytes, not as a bytearray
    return make, arguments, (version, array.shape, dtype, is_fortran, pickle.PickleBuffer(values))
