"""The archives in which MindNLP keeps pickled tensors, written tensor by tensor."""

import pickle
import zipfile
from collections.abc import Callable
from typing import Any

PROTOCOL = 4  # of pickle: it has bytes, which MindNLP's 2 spells as text, five times as slow and a third longer
RECORD = "archive/data.pkl"


def write(obj: Any, path: str, reduce: Callable[[Any], Any] = lambda _: NotImplemented) -> None:
    """Write what ``mindnlp.core.serialization.load`` reads.

    MindNLP's ``save`` holds the pickle of all tensors in memory, twice. Here each goes into the file by itself.

    Args:
        obj: No object may contain itself.
        path: The file.
        reduce: As ``pickle.Pickler.reducer_override``.
    """

    class Pickler(pickle.Pickler):
        def reducer_override(self, obj):
            return reduce(obj)

    with zipfile.ZipFile(path, "w") as archive, archive.open(RECORD, "w", force_zip64=True) as record:
        pickler = Pickler(record, PROTOCOL)
        pickler.fast = True  # no memo, which would keep all that was pickled
        pickler.dump(obj)
